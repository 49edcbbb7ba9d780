fn main() {
    for path in std::env::args().skip(1) {
        let image = std::sync::Arc::new(pyrograph_elf::Image::open(path.as_ref()).unwrap());
        let unwind = pyrograph_unwind::UnwindInfo::from_elf(image.clone(), None).unwrap();
        let extent = |address| unwind.function(address);
        let mut times: Vec<f64> = (0..15)
            .map(|_| {
                let start = std::time::Instant::now();
                let found = pyrograph_language::find(&image, &extent);
                let t = start.elapsed().as_secs_f64() * 1e3;
                assert!(found.is_some());
                t
            })
            .collect();
        let first = times[0];
        times.sort_by(f64::total_cmp);
        println!("{path}: first {first:.2} ms, least {:.2}, median {:.2}", times[0], times[7]);
    }
}
