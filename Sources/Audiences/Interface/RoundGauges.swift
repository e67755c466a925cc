import Delivery
import LiveActivity

/// A count for each member outcome, by `MemberOutcome.rawValue`.
public typealias CountsByMemberOutcome = InlineArray<6, UInt64>

/// A count for each kind of membership change, by `MembershipChangeKind.rawValue`.
public typealias CountsByMembershipChangeKind = InlineArray<3, UInt64>

/// The current numbers of one app's rounds (``RoundSlot``), for its metrics.
public struct RoundGauges: Sendable, Equatable, BitwiseCopyable {
    /// Rounds that have versions under way.
    public var roundCount = 0
    /// Parked members, including those whose push is under way.
    public var parkedMemberCount = 0
    /// When the command of the oldest version under way was admitted, UNIX milliseconds; nil if no version is under
    /// way.
    public var oldestVersionAdmittedAtWallMilliseconds: Int64?
    /// Since when members wait for their turn in a round (UNIX milliseconds): the earliest time of all rounds. Nil if
    /// every round has reached all its members, and no record was passed over.
    ///
    /// A wait begins when a command is admitted. Later commands do not begin it again, so this time shows a backlog
    /// even if no single command is old. Parked members do not count: a phone that gets 429 from APNs for hours must
    /// not raise an alert for operators.
    public var oldestRoundWaitingSinceWallMilliseconds: Int64?

    public init() {}
}

extension Audiences {
    /// Returns how many members got each outcome since the worker started. A member counts once in each lap
    /// (``RoundProgress``), even if several versions reached it in this lap.
    public func memberOutcomeCounts(of appIndex: Int) -> CountsByMemberOutcome {
        apps[appIndex].memberOutcomeCounts
    }

    /// Returns the number of changes that audiences have acknowledged since the worker started.
    public func membershipChangeCounts(of appIndex: Int) -> CountsByMembershipChangeKind {
        apps[appIndex].membershipChangeCounts
    }

    /// Adds the current numbers of each app to its element of `gauges`, which has one element for each app. For
    /// `oldestRoundWaitingSinceWallMilliseconds`, records that were passed over count too, because their states have
    /// reached no member yet.
    public func addGauges(to gauges: inout [RoundGauges]) {
        partitions.forEachAssigned { partition in
            guard partition.pointee.phase == .assigned else { return }
            for record in partition.pointee.passedOverRecords.lowestRecordOfEachApp {
                let appIndex = Int(record.appIndex)
                gauges[appIndex].oldestRoundWaitingSinceWallMilliseconds = min(
                    gauges[appIndex].oldestRoundWaitingSinceWallMilliseconds ?? .max,
                    record.admittedAtWallMilliseconds
                )
            }
        }
        for rawIndex in 0..<rounds.indexBound {
            let round = RoundIndex(rawValue: rawIndex)
            guard rounds.isInUse(round) else { continue }
            let appIndex = Int(rounds[round].appIndex)
            gauges[appIndex].parkedMemberCount += Int(rounds[round].members.parkedCount)
            let first = rounds[round].versions.first
            guard first != .null else { continue }
            gauges[appIndex].roundCount += 1
            let admittedAtWallMilliseconds = rangeVersions[first].record.instruction.admittedAtMilliseconds
            gauges[appIndex].oldestVersionAdmittedAtWallMilliseconds = min(
                gauges[appIndex].oldestVersionAdmittedAtWallMilliseconds ?? .max,
                admittedAtWallMilliseconds
            )
            if let sinceWallMilliseconds = membersWaitingSinceWallMilliseconds(round) {
                gauges[appIndex].oldestRoundWaitingSinceWallMilliseconds = min(
                    gauges[appIndex].oldestRoundWaitingSinceWallMilliseconds ?? .max,
                    sinceWallMilliseconds
                )
            }
        }
    }

    /// Returns since when members of the round wait for their turn; nil if none waits, or if the round sends nothing
    /// (`ending`, `draining`, `abandoned`). Parked members do not count.
    private func membersWaitingSinceWallMilliseconds(_ round: RoundIndex) -> Int64? {
        switch rounds[round].phase {
        case .awaitingVersions:
            return rangeVersions[rounds[round].versions.first].record.instruction.admittedAtMilliseconds
        case .claiming, .awaitingClaim, .restoring, .running:
            guard hasReachedAllMembers(round) else {
                return rounds[round].progress.membersWaitingSinceWallMilliseconds
            }
            guard let received = lastBegunAndFirstReceived(of: round).received else { return nil }
            return rangeVersions[received].record.instruction.admittedAtMilliseconds
        case .ending, .draining, .abandoned: return nil
        }
    }

    /// Whether every member has had its turn in each version that has begun. True if no version has begun.
    func hasReachedAllMembers(_ round: RoundIndex) -> Bool {
        guard let newest = lastBegunAndFirstReceived(of: round).begun else { return true }
        return rounds[round].progress.completedPosition >= rangeVersions[newest].endPosition
    }

    /// Notes since when members of a round wait for their turn: since the command of a new version was admitted. If
    /// members already wait for an older version, the noted time stays. Call this before the version joins the round.
    mutating func noteMembersWaiting(of round: RoundIndex, since rangeVersion: RangeVersionIndex) {
        guard hasReachedAllMembers(round) else { return }
        rounds[round].progress.membersWaitingSinceWallMilliseconds =
            rangeVersions[rangeVersion].record.instruction.admittedAtMilliseconds
    }
}
