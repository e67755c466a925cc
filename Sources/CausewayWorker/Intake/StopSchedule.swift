/// The deadlines of a worker that is stopping. (R5)
///
/// The deadlines of all steps are within the drain time, counted from the signal, even if Kafka, Redis or APNs does
/// not respond. Kubernetes kills a worker that takes longer, and a killed worker does not leave its consumer group.
struct StopSchedule: Equatable {
    /// The last quarter of the drain time, but at most this time, is reserved for leaving the group and
    /// closing both clients.
    static let closingMillisecondsMax: Int64 = 5_000
    /// The least time of each closing step. A step gets only this time if earlier steps have used up the schedule,
    /// or after a second signal. A signal during a step does not shorten the step.
    static let closingStepMillisecondsMin: Int64 = 500

    /// Deadlines in ascending order, monotonic milliseconds. Until the first one, the worker waits for the
    /// records in flight.
    let drainEndMilliseconds: Int64
    let consumerEndMilliseconds: Int64
    let flushEndMilliseconds: Int64
    let endMilliseconds: Int64

    init(requestedAtMilliseconds: Int64, drainMilliseconds: Int64) {
        let closingMilliseconds = min(Self.closingMillisecondsMax, drainMilliseconds / 4)
        endMilliseconds = requestedAtMilliseconds + drainMilliseconds
        drainEndMilliseconds = endMilliseconds - closingMilliseconds
        flushEndMilliseconds = endMilliseconds - min(Self.closingStepMillisecondsMin, closingMilliseconds / 4)
        consumerEndMilliseconds = endMilliseconds - min(2 * Self.closingStepMillisecondsMin, closingMilliseconds / 2)
    }

    /// Returns how long a closing step that begins now may take.
    static func remainingMilliseconds(until endMilliseconds: Int64, nowMilliseconds: Int64, isStoppingAtOnce: Bool)
        -> Int64
    {
        isStoppingAtOnce
            ? closingStepMillisecondsMin : max(closingStepMillisecondsMin, endMilliseconds - nowMilliseconds)
    }
}
