/// Decides when the lane reports that one of its blocked pools works again, or perhaps does. After a report, the lane's
/// deferred commands are read at once, even those that are not due.
///
/// Two reports are at least an interval apart. Otherwise a pool that fails again and again would make the lane read and
/// defer all its commands repeatedly, also those of other apps. Exception: responses are reported at once if the last
/// report was about a mere connection: the commands that were read because of it may be deferred again by now.
struct PoolRecoveryReports {
    enum Evidence {
        /// A pool has opened a connection, so perhaps it works.
        case connection
        /// Responses have ended the block of a pool.
        case responses
    }

    /// The strongest evidence since the last report; nil: there is none.
    private var unreportedEvidence: Evidence?
    /// The evidence of the last report; nil: there was no report.
    private var reportedEvidence: Evidence?
    /// When the interval after the last report ends, a monotonic time; nil: there was no report.
    private var intervalEndMilliseconds: Int64?

    mutating func note(_ evidence: Evidence) {
        if unreportedEvidence != .responses { unreportedEvidence = evidence }
    }

    /// Returns whether the lane must report a recovery now. If so, the report counts as made.
    ///
    /// - Parameter intervalMilliseconds: how long the next report must wait if this call returns true.
    mutating func takeDueReport(intervalMilliseconds: Int64, now: Moment) -> Bool {
        guard let evidence = unreportedEvidence else { return false }
        let isProofAfterConnection = evidence == .responses && reportedEvidence == .connection
        guard isProofAfterConnection || now.monotonicMilliseconds >= (intervalEndMilliseconds ?? .min) else {
            return false
        }
        (unreportedEvidence, reportedEvidence) = (nil, evidence)
        intervalEndMilliseconds = now.monotonicMilliseconds + intervalMilliseconds
        return true
    }

    /// When a report that waits for the end of the interval is due, a monotonic time; nil: none waits.
    var dueMilliseconds: Int64? { unreportedEvidence == nil ? nil : intervalEndMilliseconds }
}
