import Reactor
import Synchronization

/// Finished traces on their way from one lane to the exporter. What finds no room is dropped and counted: a lane waits for nobody.
final class TraceRing: Sendable {
    static let capacity = 4_096

    private let ring = SingleProducerRing<FinishedTrace>(capacity: TraceRing.capacity)
    private let drops = Atomic<UInt64>(0)

    /// Traces that found no room, since the start.
    var dropped: UInt64 { drops.load(ordering: .relaxed) }

    /// On the lane's thread.
    func push(_ trace: FinishedTrace) {
        if !ring.push(trace) { drops.wrappingAdd(1, ordering: .relaxed) }
    }

    /// On the exporter's.
    func pop() -> FinishedTrace? { ring.pop() }
}
