import Reactor

/// Finished traces on their way from one lane to the exporter. What finds no room is dropped and counted: a lane waits for nobody.
package final class TraceRing: Sendable {
    static let capacity = 4_096

    private let ring = SingleProducerRing<FinishedTrace>(capacity: TraceRing.capacity)
    private let board: TraceBoard

    package init(_ board: TraceBoard) { self.board = board }

    /// On the lane's thread.
    package func push(_ trace: FinishedTrace) {
        if !ring.push(trace) { board.noteFull() }
    }

    /// On the exporter's.
    func pop() -> FinishedTrace? { ring.pop() }
}
