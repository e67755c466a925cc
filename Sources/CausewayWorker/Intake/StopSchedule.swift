/// The deadlines of a worker that was told to stop. All steps end within the drain time, counted from the signal, even if Kafka, Redis or
/// APNs does not answer: a worker that Kubernetes kills has not left its group.
struct StopSchedule: Equatable {
    /// The end of the drain time is for leaving the group and closing both clients: a quarter of it, and no more than this.
    static let closingMillisecondsMax: Int64 = 5_000
    /// What each step of closing has, even if the one before it took all the time; and all that it has once the worker is hurried.
    static let stepMilliseconds: Int64 = 500

    /// Monotonic times, in the order in which they come. What is under way is waited for until the first.
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

    /// How long a step of closing may take that begins now.
    static func wait(until endMilliseconds: Int64, nowMilliseconds: Int64, isHurried: Bool) -> Int64 {
        isHurried ? stepMilliseconds : max(stepMilliseconds, endMilliseconds - nowMilliseconds)
    }
}
