/// The deadlines of a worker that is stopping. (R5)
///
/// The deadlines of all steps are within the drain time (`worker.drainMilliseconds`), counted from the signal, even if
/// Kafka, Redis or APNs does not respond. Kubernetes kills a worker that takes longer, and a killed worker does not
/// leave its consumer group.
struct StopSchedule: Equatable {
    /// The last part of the drain time is reserved for leaving the group and closing the consumer and the producer:
    /// this many milliseconds or, if the drain time is below 20 s, a quarter of it.
    static let closingMillisecondsMax: Int64 = 5_000
    /// The least time of each closing step, even if the earlier steps have used up the schedule. After a second signal,
    /// each step that has not begun gets exactly this time. A step that has begun is not shortened.
    static let closingStepMillisecondsMin: Int64 = 500

    /// Until this time, the worker waits for the records in flight. All four deadlines are in monotonic milliseconds.
    let drainEndMilliseconds: Int64
    /// The deadline for the consumer to leave its group and close.
    let consumerEndMilliseconds: Int64
    /// The deadline of the producer's wait for acknowledgements.
    let flushEndMilliseconds: Int64
    /// The deadline for the producer to close.
    let producerEndMilliseconds: Int64

    init(requestedAtMilliseconds: Int64, drainMilliseconds: Int64) {
        let closingMilliseconds = min(Self.closingMillisecondsMax, drainMilliseconds / 4)
        producerEndMilliseconds = requestedAtMilliseconds + drainMilliseconds
        drainEndMilliseconds = producerEndMilliseconds - closingMilliseconds
        flushEndMilliseconds = producerEndMilliseconds - min(Self.closingStepMillisecondsMin, closingMilliseconds / 4)
        consumerEndMilliseconds =
            producerEndMilliseconds - min(2 * Self.closingStepMillisecondsMin, closingMilliseconds / 2)
    }

    /// Returns how long a closing step that begins now may take: at least ``closingStepMillisecondsMin``, and exactly
    /// this time after a second signal.
    static func computeRemainingMilliseconds(
        until endMilliseconds: Int64,
        nowMilliseconds: Int64,
        isStoppingAtOnce: Bool
    ) -> Int64 {
        isStoppingAtOnce
            ? closingStepMillisecondsMin : max(closingStepMillisecondsMin, endMilliseconds - nowMilliseconds)
    }
}
