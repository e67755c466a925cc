/// The commands in a partition of the deferred topic that previous owners deferred, and that this lane has not read
/// yet. Lifetime commands wait for them (R35). Only the previous owner knew which activities have a deferred state
/// (`DeferralWait`), so without this wait the end of a lifetime could be sent before such a state.
///
/// Other commands need not wait: a newer state replaces a deferred one anyway.
struct DeferredBacklog: BitwiseCopyable {
    /// When the wait ends at the latest, a monotonic time; `.min`: there is no wait. By then, each command that was
    /// deferred before the partition's assignment is due.
    private var waitEndMilliseconds: Int64 = .min
    /// The offset at which the lane began to read the partition.
    private var startOffset: Int64 = 0
    /// The offset at the end of the log when the lane first learned it; `.max`: not known yet. Commands from here on
    /// were deferred after the assignment, usually by this lane.
    private var endOffset: Int64 = .max

    init() {}

    /// Begins the wait at the partition's assignment.
    init(startOffset: Int64, waitEndMilliseconds: Int64) {
        (self.startOffset, self.waitEndMilliseconds) = (startOffset, waitEndMilliseconds)
    }

    /// Notes the offset at the end of the log. Only the first call has an effect.
    mutating func noteLogEnd(_ logEndOffset: Int64) { if endOffset == .max { endOffset = logEndOffset } }

    /// Whether the lane may still have to read a command that a previous owner deferred. False when the wait is over.
    ///
    /// - Parameter nextOffset: the offset after the last record of the partition that the lane has received.
    func mayHaveUnreadCommands(nextOffset: Int64, now: Moment) -> Bool {
        now.monotonicMilliseconds < waitEndMilliseconds && max(startOffset, nextOffset) < endOffset
    }
}
