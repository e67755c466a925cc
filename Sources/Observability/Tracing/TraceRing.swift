import Reactor

/// Carries finished traces from one lane to the exporter. A full ring drops the trace and counts the drop, because a
/// lane never waits.
package final class TraceRing: Sendable {
    static let capacity = 4_096

    private let ring = SingleProducerRing<FinishedTrace>(capacity: TraceRing.capacity)
    private let counters: TraceCounters

    package init(_ counters: TraceCounters) { self.counters = counters }

    /// Adds a trace. Call this only on the lane's thread.
    package func push(_ trace: FinishedTrace) {
        if !ring.push(trace) { counters.countFullRingDrop() }
    }

    /// Removes and returns the oldest trace. Only the exporter may call this.
    func pop() -> FinishedTrace? { ring.pop() }
}
