/// Where the numbers of each metric are in a thread's array. Each number of the array is a cell. The layout is the same
/// for all threads.
///
/// A series is one combination of the values of a metric's dimensions. A counter or gauge has one cell for each series.
/// A histogram has several: its buckets, one for larger values, and the sum.
struct MetricLayout: Sendable {
    /// The maximum number of cells of one thread, 8 bytes each. 255 apps in two environments need less than a fifth of
    /// these cells.
    static let cellsMax = 1 << 20

    /// Where one metric's cells are in a thread's array.
    struct CellRange: BitwiseCopyable, Sendable {
        /// The index of the metric's first cell; -1 if the metric has no cells.
        var firstCellIndex: Int32 = -1
        /// How many values the first and the second dimension have; 1 for a dimension that the metric lacks.
        var firstDimensionValueCount: Int32 = 1
        var secondDimensionValueCount: Int32 = 1
        /// The number of cells of one series: 1 for a counter or gauge. For a histogram, its buckets, one cell for
        /// larger values, and one for the sum.
        var cellsPerSeries: Int16 = 1
        /// How many indices the methods of ``ThreadMetrics`` take for this metric: one for each dimension except
        /// `lane`, because each lane has its own array.
        var dimensionIndexCount: Int16 = 0

        var seriesCount: Int { Int(firstDimensionValueCount) * Int(secondDimensionValueCount) }

        func cellIndex(_ firstDimensionIndex: Int, _ secondDimensionIndex: Int) -> Int {
            Int(firstCellIndex) + (firstDimensionIndex * Int(secondDimensionValueCount) + secondDimensionIndex)
                * Int(cellsPerSeries)
        }
    }

    /// Where the cells of each metric are, indexed by ``Metric``'s raw value.
    private(set) var cellRanges: [CellRange] = []
    private(set) var cellCount = 0

    init(labels: LabelValues) {
        for definition in MetricCatalog.definitions {
            var range = CellRange()
            let counts = definition.dimensions.map { labels.values(of: $0).count }
            precondition(counts.count <= 2, "a metric has two dimensions at most")
            precondition(
                counts.count <= 1 || !definition.dimensions.contains(.lane),
                "a metric by lane has no other dimension"
            )
            if definition.metric.isInMetricTotals, !definition.dimensions.contains(.partition) {
                range.firstCellIndex = Int32(cellCount)
                if let first = counts.first { range.firstDimensionValueCount = Int32(first) }
                if counts.count == 2 { range.secondDimensionValueCount = Int32(counts[1]) }
                range.dimensionIndexCount = Int16(definition.dimensions.count { $0 != .lane })
                if case .histogram(let bounds) = definition.kind {
                    precondition(
                        bounds.count <= 16 && bounds == bounds.sorted(),
                        "a histogram's bounds are few and ascend"
                    )
                    range.cellsPerSeries = Int16(bounds.count + 2)
                }
                cellCount += range.seriesCount * Int(range.cellsPerSeries)
                precondition(cellCount <= Self.cellsMax, "too many apps for the metrics")
            }
            cellRanges.append(range)
        }
    }

    subscript(_ metric: Metric) -> CellRange { cellRanges[Int(metric.rawValue)] }
}
