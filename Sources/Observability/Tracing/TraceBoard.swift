import Synchronization

/// Why nobody is told of a record's spans; `reason` in `causeway_traces_dropped_total`.
enum TraceDrop: UInt8, CaseIterable, Sendable {
    /// The lane's ring was full: more were sampled than the collector took.
    case full
    /// The collector refused them in a way that no retry cures.
    case refused
    /// They were offered as often as they are.
    case undelivered
    /// The worker ended before they were taken.
    case stopped

    var name: String { "\(self)" }
}

/// What became of traces: counted by the lanes' rings and the exporter, read with the metrics.
package final class TraceBoard: Sendable {
    private struct Counts {
        var exported: UInt64 = 0
        var failures = [UInt64](repeating: 0, count: TracePostFailure.allCases.count)
        var drops = [UInt64](repeating: 0, count: TraceDrop.allCases.count)
    }

    private let counts = Mutex(Counts())
    /// Apart from the others: a lane waits for nobody.
    private let full = Atomic<UInt64>(0)

    var exported: UInt64 { counts.withLock { $0.exported } }
    /// By the raw value of ``TracePostFailure``.
    var failures: [UInt64] { counts.withLock { $0.failures } }
    /// By the raw value of ``TraceDrop``.
    var drops: [UInt64] {
        var drops = counts.withLock { $0.drops }
        drops[Int(TraceDrop.full.rawValue)] = full.load(ordering: .relaxed)
        return drops
    }
    var dropped: UInt64 { drops.reduce(0, &+) }

    /// Of a record whose ring was full. On any lane's thread.
    func noteFull() { full.wrappingAdd(1, ordering: .relaxed) }

    func noteExported(_ records: Int) { counts.withLock { $0.exported &+= UInt64(clamping: records) } }

    func note(_ failure: TracePostFailure) { counts.withLock { $0.failures[Int(failure.rawValue)] &+= 1 } }

    func noteDropped(_ records: Int, _ reason: TraceDrop) {
        precondition(reason != .full, "a ring counts what finds no place in it")
        counts.withLock { $0.drops[Int(reason.rawValue)] &+= UInt64(clamping: records) }
    }
}
