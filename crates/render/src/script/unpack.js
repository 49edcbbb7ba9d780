  // The bytes of gzip in base64.
  async function gunzip(text) {
    var packed;
    if (Uint8Array.fromBase64) {
      packed = Uint8Array.fromBase64(text);
    } else {
      var plain = atob(text);
      packed = new Uint8Array(plain.length);
      for (var i = 0; i < packed.length; i++) { packed[i] = plain.charCodeAt(i); }
    }
    // Written in one piece: a stream of a blob goes through another process.
    var gzip = new DecompressionStream("gzip");
    var writer = gzip.writable.getWriter();
    writer.write(packed).catch(function () {});
    writer.close().catch(function () {});
    return new Uint8Array(await new Response(gzip.readable).arrayBuffer());
  }
