/// The deadlines of a worker that is stopping. (R5)
///
/// All steps end within the drain time, counted from the signal, even if Kafka, Redis or APNs does not answer: Kubernetes would kill a
/// worker that is late, and a killed worker has not left its group.
struct StopSchedule: Equatable {
    /// The last part of the drain time is for leaving the group and closing both clients: a quarter of it, at most this long.
    static let closingMillisecondsMax: Int64 = 5_000
    /// The time of each closing step if earlier steps have used up the rest, or if a second signal has come. A signal during a step does
    /// not shorten that step.
    static let stepMilliseconds: Int64 = 500

    /// Monotonic milliseconds, ascending. Until the first, the worker waits for what is in flight.
    let drainEndMilliseconds: Int64
    let consumerEndMilliseconds: Int64
    let flushEndMilliseconds: Int64
    let endMilliseconds: Int64

    init(toldMilliseconds: Int64, drainMilliseconds: Int64) {
        let closing = min(Self.closingMillisecondsMax, drainMilliseconds / 4)
        endMilliseconds = toldMilliseconds + drainMilliseconds
        drainEndMilliseconds = endMilliseconds - closing
        flushEndMilliseconds = endMilliseconds - min(Self.stepMilliseconds, closing / 4)
        consumerEndMilliseconds = endMilliseconds - min(2 * Self.stepMilliseconds, closing / 2)
    }

    /// How long a closing step that begins now may take.
    static func wait(until endMilliseconds: Int64, nowMilliseconds: Int64, isStoppingAtOnce: Bool) -> Int64 {
        isStoppingAtOnce ? stepMilliseconds : max(stepMilliseconds, endMilliseconds - nowMilliseconds)
    }
}
