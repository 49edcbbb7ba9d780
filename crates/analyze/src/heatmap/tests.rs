use super::*;

const SECOND: f64 = 1e9;

fn map(points: &[(f64, f64)], options: &HeatMapOptions) -> HeatMap {
    let times: Vec<f64> = points.iter().map(|(time, _)| time * SECOND).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    heat_map(&times, &values, options).expect("points in range")
}

fn fails(points: &[(f64, f64)], options: &HeatMapOptions) -> HeatMapError {
    let times: Vec<f64> = points.iter().map(|(time, _)| time * SECOND).collect();
    let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
    heat_map(&times, &values, options).expect_err("nothing to draw")
}

/// Each point is in a cell that it belongs into, or counted as outside.
fn check_sums(map: &HeatMap) {
    let drawn: u64 = map.cells.iter().map(|cell| cell.count).sum();
    assert_eq!(drawn + map.below + map.above + map.later, map.points);
    assert_eq!(map.rows.iter().sum::<u64>(), drawn);
    let columns: u64 = map.columns.iter().map(|column| column.points).sum();
    assert_eq!(columns, map.points - map.later);
    assert!(map.edges.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", map.edges);
    assert_eq!(map.edges.len(), map.rows.len() + 1);
}

fn by_second() -> HeatMapOptions {
    HeatMapOptions { column_step: Some(SECOND), ..HeatMapOptions::default() }
}

#[test]
fn finer_cells_hold_the_same_points_and_are_as_fine_as_there_may_be() {
    let points: Vec<(f64, f64)> = (0..64).map(|n| (f64::from(n), f64::from(n % 8))).collect();
    let options = HeatMapOptions {
        column_step: Some(32e9),
        rows: Some(2),
        high: Some(8.0),
        ..HeatMapOptions::default()
    };
    assert_eq!(map(&points, &options).fine, FineCells { factor: 1, cells: Vec::new() });
    for (most, factor, cells) in [(1000, 16, 64), (40, 2, 16), (16, 2, 16), (10, 1, 0)] {
        let fine = map(&points, &HeatMapOptions { most_fine: most, ..options.clone() }).fine;
        assert_eq!((fine.factor, fine.cells.len()), (factor, cells), "{most}");
        let counted: u64 = fine.cells.iter().map(|cell| cell.count).sum();
        assert!(counted == 64 || cells == 0);
        assert!(fine.cells.is_sorted_by_key(|cell| (cell.column, cell.row)));
        // Two columns of 32 s, two rows of 4.
        let at = |cell: &HeatCell| (cell.column / fine.factor, cell.row / fine.factor);
        assert!(fine.cells.iter().all(|cell| at(cell).0 < 2 && at(cell).1 < 2));
    }
}

#[test]
fn the_first_and_last_column_and_the_highest_row_are_there() {
    let points = [(10.0, 0.0), (10.9, 100.0), (12.0, 50.0), (13.0, 100.0)];
    let options = HeatMapOptions { rows: Some(10), ..by_second() };
    let map = map(&points, &options);
    check_sums(&map);
    assert_eq!(map.columns.len(), 4);
    let cells: Vec<_> = map.cells.iter().map(|cell| (cell.column, cell.row, cell.count)).collect();
    assert_eq!(cells, [(0, 0, 1), (0, 9, 1), (2, 5, 1), (3, 9, 1)]);
}

#[test]
fn time_may_go_back() {
    let ordered = [(1.0, 1.0), (2.5, 2.0), (4.0, 3.0)];
    let mixed = [(4.0, 3.0), (1.0, 1.0), (2.5, 2.0)];
    let (ordered, mixed) = (map(&ordered, &by_second()), map(&mixed, &by_second()));
    assert_eq!(ordered.cells, mixed.cells);
    assert_eq!(ordered.columns.len(), 4);
}

#[test]
fn rows_are_round_by_default() {
    let options = by_second();
    let map = |high: f64| map(&[(0.0, 0.3), (0.0, high)], &options);
    let wide = map(105_611.5);
    check_sums(&wide);
    assert_eq!(wide.edges[..3], [0.0, 2500.0, 5000.0]);
    assert_eq!(wide.edges.last(), Some(&107_500.0));
    let narrow = map(0.35);
    assert_eq!(narrow.edges[..4], [0.0, 0.01, 0.02, 0.03]);
    assert_eq!(narrow.rows.len(), 36);
    // 0.3 lies at an edge, and belongs above it.
    assert_eq!(narrow.rows[30], 1);
}

#[test]
fn whole_numbers_have_no_rows_between_them() {
    let points: Vec<(f64, f64)> = (0..=12).map(|value| (0.0, f64::from(value))).collect();
    let map = map(&points, &by_second());
    assert_eq!(map.rows, [1; 13]);
}

#[test]
fn a_range_that_was_asked_for_is_kept_and_the_rest_counted() {
    let points: Vec<(f64, f64)> = (0..100).map(|value| (0.0, f64::from(value))).collect();
    let options = HeatMapOptions { low: Some(10.0), high: Some(19.0), ..by_second() };
    let drawn = map(&points, &options);
    check_sums(&drawn);
    assert_eq!((drawn.below, drawn.above), (10, 80));
    assert_eq!((drawn.edges[0], *drawn.edges.last().expect("edges")), (10.0, 19.0));
    let options = HeatMapOptions { row_step: Some(30.0), ..by_second() };
    assert_eq!(map(&points, &options).rows, [30, 30, 30, 10]);
    let options = HeatMapOptions { high: Some(90.0), ..options };
    assert_eq!(map(&points, &options).rows, [30, 30, 31]);
}

#[test]
fn columns_beyond_the_most_are_counted() {
    let points: Vec<(f64, f64)> = (0..10).map(|second| (f64::from(second), 1.0)).collect();
    let options = HeatMapOptions { most_columns: Some(4), ..by_second() };
    let map = map(&points, &options);
    check_sums(&map);
    assert_eq!((map.columns.len(), map.later), (4, 6));
}

#[test]
fn a_log_scale_has_powers_of_ten_among_its_edges() {
    let points: Vec<(f64, f64)> =
        (0..=6).map(|power| (0.0, 10f64.powi(power))).chain([(0.0, 0.0), (0.0, -5.0)]).collect();
    let map = map(&points, &HeatMapOptions { log: true, ..by_second() });
    check_sums(&map);
    assert_eq!(map.below, 2, "what has no logarithm");
    for power in 0..=6 {
        assert!(map.edges.contains(&10f64.powi(power)), "10^{power} in {:?}", map.edges);
    }
    let ratios: Vec<f64> = map.edges.windows(2).map(|pair| pair[1] / pair[0]).collect();
    assert!(ratios.iter().all(|ratio| (ratio / ratios[0] - 1.0).abs() < 1e-9));
}

#[test]
fn any_range_works() {
    let ranges = [
        (0.0, 0.0),
        (5.0, 5.0),
        (-3.0, -1.0),
        (-1e300, 1e300),
        (1e-300, 1e-290),
        (f64::MIN, f64::MAX),
        (1e15, 1e15 + 1.0),
        (0.0, f64::MIN_POSITIVE),
    ];
    for (low, high) in ranges {
        for log in [false, true] {
            for rows in [None, Some(1), Some(7)] {
                let options = HeatMapOptions { log, rows, ..by_second() };
                let times = [0.0, 0.0];
                match heat_map(&times, &[low, high], &options) {
                    Ok(map) => check_sums(&map),
                    Err(error) => {
                        assert_eq!((log, error), (true, HeatMapError::NoneInRange(2)));
                        assert!(high <= 0.0);
                    }
                }
            }
        }
    }
    for (first, last) in [(0.0, 1.0), (0.0, 1e-9), (-1e9, 1e12), (0.0, 3600.0), (0.0, 86_400.0)] {
        let map = map(&[(first, 1.0), (last, 1.0)], &HeatMapOptions::default());
        check_sums(&map);
        assert!(map.columns.len() <= 121, "{} columns", map.columns.len());
    }
}

#[test]
fn percentiles_are_of_all_points_of_a_column() {
    let mut points: Vec<(f64, f64)> = (1..=100).map(|value| (0.0, f64::from(value))).collect();
    points.push((2.0, 7.0));
    let options =
        HeatMapOptions { percentiles: vec![50.0, 90.0, 99.0], high: Some(60.0), ..by_second() };
    let map = map(&points, &options);
    let first: Vec<_> = map.percentiles.iter().map(|one| one.columns[0]).collect();
    assert_eq!(first, [Some(50.0), Some(90.0), Some(99.0)]);
    assert_eq!(map.percentiles[0].columns, [Some(50.0), None, Some(7.0)]);
    assert_eq!(map.percentiles[2].overall, 99.0);
}

#[test]
fn nothing_to_draw_and_too_much_are_errors() {
    let one = [(0.0, 1.0)];
    assert_eq!(fails(&[], &by_second()), HeatMapError::Empty);
    let options = HeatMapOptions { low: Some(2.0), ..by_second() };
    assert_eq!(fails(&one, &options), HeatMapError::NoneInRange(1));
    let options = HeatMapOptions { low: Some(2.0), high: Some(1.0), ..by_second() };
    assert_eq!(fails(&one, &options), HeatMapError::EmptyRange(2.0, 1.0));
    let options = HeatMapOptions { row_step: Some(1e-9), ..by_second() };
    assert!(matches!(fails(&one, &options), HeatMapError::TooManyCells { .. }));
    let options = HeatMapOptions { column_step: Some(1.0), ..HeatMapOptions::default() };
    let far = [(0.0, 1.0), (1e6, 1.0)];
    assert!(matches!(fails(&far, &options), HeatMapError::TooManyCells { .. }));
}
