import Synchronization

/// Why a record's spans were dropped, the label `reason` of `causeway_traces_dropped_total`.
enum TraceDropReason: UInt8, CaseIterable, Sendable {
    /// The lane's ring was full: more records were sampled than the collector took.
    case full
    /// The collector refused the spans for good, or the spans could not be encoded.
    case refused
    /// The collector took the spans in none of the permitted attempts.
    case undelivered
    /// The worker ended before the collector took the spans.
    case stopped

    var name: String { "\(self)" }
}

/// Counts exported and dropped traces, and failed requests. The lanes' rings and the exporter add to the counts, and
/// the metrics show them.
package final class TraceCounters: Sendable {
    private struct LockedCounts {
        var exportedCount: UInt64 = 0
        var failureCounts = [UInt64](repeating: 0, count: TracePostFailure.allCases.count)
        var dropCounts = [UInt64](repeating: 0, count: TraceDropReason.allCases.count)
    }

    private let counts = Mutex(LockedCounts())
    /// The traces that full rings dropped. The lanes count them without the lock of the other counts, because a lane
    /// must never wait.
    private let fullRingDropCount = Atomic<UInt64>(0)

    var exportedCount: UInt64 { counts.withLock { $0.exportedCount } }
    /// The failed requests, indexed by the raw value of ``TracePostFailure``.
    var failureCounts: [UInt64] { counts.withLock { $0.failureCounts } }
    /// The dropped traces, indexed by the raw value of ``TraceDropReason``.
    var dropCounts: [UInt64] {
        var allDropCounts = counts.withLock { $0.dropCounts }
        allDropCounts[Int(TraceDropReason.full.rawValue)] = fullRingDropCount.load(ordering: .relaxed)
        return allDropCounts
    }
    var droppedCount: UInt64 { dropCounts.reduce(0, &+) }

    /// Counts a trace that was dropped because its ring was full. Any lane's thread may call this.
    func countFullRingDrop() { fullRingDropCount.wrappingAdd(1, ordering: .relaxed) }

    func countExportedTraces(_ count: Int) { counts.withLock { $0.exportedCount &+= UInt64(clamping: count) } }

    func countFailure(_ failure: TracePostFailure) { counts.withLock { $0.failureCounts[Int(failure.rawValue)] &+= 1 } }

    func countDroppedTraces(_ count: Int, _ reason: TraceDropReason) {
        precondition(reason != .full, "a ring counts what finds no place in it")
        counts.withLock { $0.dropCounts[Int(reason.rawValue)] &+= UInt64(clamping: count) }
    }
}
