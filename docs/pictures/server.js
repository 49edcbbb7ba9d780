// The program in the pictures: reads rows, ranks them, and stores them compressed.
const fs = require('fs'), zlib = require('zlib'), crypto = require('crypto');
function parse(text) { return text.split('\n').map(line => line.split(',')); }
function score(row) { let s = 0; for (const c of row[1]) s = (s * 31 + c.charCodeAt(0)) % 9973; return s; }
function rank(rows) { return rows.map(r => ({ name: r[1], score: score(r) })).sort((a, b) => b.score - a.score || (a.name < b.name ? -1 : 1)); }
function render(ranked) { return JSON.stringify(ranked.slice(0, 20000)); }
function compress(text) { return zlib.gzipSync(text, { level: 4 }); }
function sign(data) { return crypto.createHash('sha256').update(data).digest('hex'); }
function store(path, data) { fs.writeFileSync(path, data); return fs.readFileSync(path); }
function handle(text, i) { const rows = parse(text); const ranked = rank(rows); const body = compress(render(ranked)); sign(body); return store(require('os').tmpdir() + '/pyrograph-picture-' + (i % 4), Buffer.concat(Array(40).fill(body))); }
const text = Array.from({ length: 30000 }, (_, i) => i + ',user' + (i * 7919 % 30011) + ',x'.repeat(5)).join('\n');
for (let i = 0; i < 25; i++) handle(text, i);
