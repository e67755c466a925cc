/// The commands in a partition of the deferred topic that previous owners deferred, and that this lane has not read
/// yet. Lifetime commands wait for them (R35). Only the previous owner knew which activities have a deferred state
/// (`DeferralWait`), so without this wait the end of a lifetime could be sent before such a state.
///
/// Other commands need not wait: a newer state replaces a deferred one anyway.
struct DeferredBacklog: BitwiseCopyable {
    /// When the wait ends at the latest, a monotonic time; `.min`: there is no wait. By then, each command that was
    /// deferred before the partition's assignment is due.
    private var waitEndMilliseconds: Int64 = .min
    /// Where the reading of the partition began.
    private var startOffset: Int64 = 0
    /// The end of the log when the lane first learned it; `.max`: not known yet. Commands from here on were deferred
    /// after the assignment, usually by this lane.
    private var endOffset: Int64 = .max

    init() {}

    /// Begins the wait at the partition's assignment.
    init(startOffset: Int64, waitEndMilliseconds: Int64) {
        (self.startOffset, self.waitEndMilliseconds) = (startOffset, waitEndMilliseconds)
    }

    /// Notes the end of the log. Only the first one counts.
    mutating func noteLogEnd(_ logEndOffset: Int64) { if endOffset == .max { endOffset = logEndOffset } }

    /// Whether the lane may still have to read one of these commands.
    ///
    /// - Parameter nextOffset: the offset after the last record of the partition that the lane has received.
    func mayHaveUnreadCommands(nextOffset: Int64, now: Moment) -> Bool {
        now.monotonicMilliseconds < waitEndMilliseconds && max(startOffset, nextOffset) < endOffset
    }
}
