use pyrograph_analyze::*;
use pyrograph_profile::*;
use pyrograph_render::*;
use std::io::Read;
fn main() {
    let mut t = Vec::new();
    std::io::stdin().read_to_end(&mut t).unwrap();
    let t = String::from_utf8_lossy(&t);
    let t0 = std::time::Instant::now();
    let mut p = Profile::new(vec![ValueType::samples()]);
    for l in t.lines() {
        let Some((s, n)) = l.rsplit_once(' ') else { continue };
        let Ok(n) = n.parse::<u64>() else { continue };
        let f: Vec<_> = s
            .split(';')
            .map(|x| {
                let x = p.strings.intern(x);
                p.frames.intern(Frame::named(x, FrameKind::User))
            })
            .collect();
        let s = p.stacks.intern_path(f);
        p.push(Sample::new(s), &[n]);
    }
    let t1 = std::time::Instant::now();
    let tree = Tree::new(&p, &LabelOptions::default());
    let t2 = std::time::Instant::now();
    let mut o = SvgOptions::default();
    for a in std::env::args().skip(1) {
        let (k, v) = a.split_once('=').unwrap_or((&a, ""));
        match k {
            "embed" => o.embed = true,
            "colors" => o.palette = v.parse().unwrap(),
            "inverted" => o.inverted = true,
            "title" => o.title = v.into(),
            "subtitle" => o.subtitle = v.into(),
            _ => panic!(),
        }
    }
    let g = flame(
        &p,
        &tree,
        &FlameOptions { min_share: o.min_width.share(o.frames_width()), ..Default::default() },
    )
    .unwrap();
    let t3 = std::time::Instant::now();
    svg(&g, &o, &mut std::io::stdout().lock()).unwrap();
    let t4 = std::time::Instant::now();
    eprintln!(
        "read {:?} tree {:?} ({} nodes) layout {:?} svg {:?}; {} frames",
        t1 - t0,
        t2 - t1,
        tree.len(),
        t3 - t2,
        t4 - t3,
        g.frames.len()
    );
}
