import Reactor

/// Finished traces in transit from one lane to the exporter. If the ring is full, a trace is dropped and counted: a lane never waits.
package final class TraceRing: Sendable {
    static let capacity = 4_096

    private let ring = SingleProducerRing<FinishedTrace>(capacity: TraceRing.capacity)
    private let counters: TraceCounters

    package init(_ counters: TraceCounters) { self.counters = counters }

    /// Called on the lane's thread.
    package func push(_ trace: FinishedTrace) {
        if !ring.push(trace) { counters.countFull() }
    }

    /// Called on the exporter's thread.
    func pop() -> FinishedTrace? { ring.pop() }
}
