import ActivityStore
import Delivery
import LiveActivity
import Testbed

/// The losses of Redis' data in runs of kind `losses`, and what they excuse.
struct SimulatedLosses {
    /// What a replica, a snapshot or an append-only file has when Redis' newest writes are lost. The marks are in Redis
    /// too, so a copy has them as they were at the same moment.
    struct Copy {
        var atMilliseconds: Int64
        var store: StoreModel
        var marks: [SimulatedLog.Partition: String]
    }

    /// How often Redis has lost data.
    var count = 0
    /// The mark of each partition in Redis, as text (`PartitionMark`).
    var marks: [SimulatedLog.Partition: String] = [:]
    /// The number of Redis' present run, which is in its run id. Each restart begins another run.
    var runNumber = 1
    /// The copies to which Redis may return, the oldest first.
    var copies: [Copy] = []
    /// Whether a worker has died, or has lost a partition in the middle of its work. Then the next owner may read a
    /// record that was sent and is not settled. If Redis has lost it too, nothing shows that it was sent.
    var hadForcedMove = false
    /// By activity: the sequences of the alerts that Redis held in a copy to which it returned. Each of them may have
    /// rung before, and may ring again with a token that comes before the registrations are read again (K18).
    var alertsHeldInCopies: [String: Set<Int>] = [:]
    /// By activity: the versions that the phone ignored after a loss: see ``Simulation/noteIfIgnored(_:by:)`` (K30).
    var ignoredVersions: [String: Set<Version>] = [:]
    /// Whether a worker has taken a partition for a new one, because the group's committed offset was 0, and has
    /// written its first marks after a loss. Then no worker notices that Redis has lost what the worker had read before
    /// (`MarkAction.next`).
    var wasUnnoticed = false
    /// The numbers of rereadings that workers have requested: because a partition's mark was lost, and because it was
    /// of another run.
    var emptiedCount = 0
    var replacedCount = 0
    /// The number of rereadings that began above a partition's first record.
    var laterBeginningCount = 0

    var runIdentifier: String { "run-\(runNumber)" }
}

/// Redis loses data. The marks in Redis show the loss, and the workers read old records again (R24, R25).
extension Simulation {
    func makeLosses() {
        guard parameters.lossesMax > 0 else { return }
        // In the first tenths of a second, no partition has a mark yet, and no worker would notice a loss.
        let lossMilliseconds = 500...Int(faultsEndMilliseconds - now)
        for _ in 0..<random.number(1...parameters.lossesMax) {
            let atMilliseconds = now + Int64(random.number(lossMilliseconds))
            scheduledEvents.append((atMilliseconds, { [self] in loseData() }))
        }
        watchStore()
    }

    /// Keeps a copy of what Redis stores. The faults of a run call this every 100 ms.
    func copyStore() {
        guard parameters.lossesMax > 0 else { return }
        let oldestMilliseconds = now - parameters.lostWritesMillisecondsMax
        losses.copies.removeAll { $0.atMilliseconds < oldestMilliseconds }
        losses.copies.append(.init(atMilliseconds: now, store: store, marks: losses.marks))
    }

    /// Redis loses its newest writes or all data. There are three cases: an operator empties the running server, whose
    /// connections stay; the server restarts without data; or a replica, or the restarted server, has a copy.
    private func loseData() {
        if random.chance(200) {
            emptyStore()
        } else {
            for case let worker? in workers { loseConnection(of: worker) }
            losses.runNumber += 1
            let outageMilliseconds = Int64(random.number(0...3_000))
            redisOutageEndMilliseconds = min(faultsEndMilliseconds, now + outageMilliseconds)
            if random.chance(700), let copy = losses.copies.randomElement(using: &random) {
                returnToCopy(copy)
            } else {
                emptyStore()
            }
        }
        losses.count += 1
        wasRedisWiped = true
    }

    private func emptyStore() {
        trace?("\(now % 1_000_000) Redis loses all data")
        store.flushAll()
        (losses.marks, losses.copies) = ([:], [])
    }

    private func returnToCopy(_ copy: SimulatedLosses.Copy) {
        trace?("\(now % 1_000_000) Redis returns to its data of \(copy.atMilliseconds % 1_000_000)")
        store = copy.store
        store.nowMilliseconds = now
        losses.marks = copy.marks
        // Later copies have writes that Redis has lost now.
        losses.copies.removeAll { $0.atMilliseconds > copy.atMilliseconds }
        for activity in phones.keys {
            let subject = StoreSubject(
                app: Array(Self.app.utf8),
                kind: .activity,
                identifier: Array(activity.utf8)
            )
            guard let heldCommand = store.activities[StoreModel.key(of: subject)]?.heldCommand, heldCommand.hasAlert
            else { continue }
            let text = String(decoding: heldCommand.command, as: UTF8.self)
            losses.alertsHeldInCopies[activity, default: []]
                .insert(findNumber("title\":\"", after: "\"alert\":{", in: text))
        }
    }

    // MARK: - What a loss excuses

    /// Whether a start or an alert may come to a phone twice, because Redis has lost data and nothing shows that the
    /// first one was sent. In runs of kind `losses`, the records that are read again must not repeat them.
    var mayRepeatAfterLoss: Bool { wasRedisWiped && (parameters.lossesMax == 0 || losses.hadForcedMove) }

    /// Whether an alert may ring a second time because Redis held it in a copy (K18).
    func wasHeldInCopy(_ alert: Int, of activity: String) -> Bool {
        losses.alertsHeldInCopies[activity]?.contains(alert) ?? false
    }

    /// Whether an alert may ring a second time because a record that brings its command was not settled when Redis lost
    /// data. The worker then handles this record as a new one. There are two cases (K18):
    ///
    /// - The command has no result yet: another command carried the alert.
    /// - The command was held twice: a registration had released it, waited for the spacing, and Redis lost data again.
    ///
    /// - Parameter view: the command whose push carries the alert.
    func isUnsettledAfterLoss(_ alert: Int, with view: RecordView, of activity: String) -> Bool {
        guard losses.count > 0 else { return false }
        let hasNoResult = results["\(activity)#\(alert)"]?.isEmpty ?? true
        let heldResultCount = results[identifier(view)]?.count { $0 == .held } ?? 0
        return hasNoResult || losses.count > 1 && heldResultCount > 1
    }

    /// Whether the activity's start may be lost: Redis lost it while it was held (K25), or it was held because Redis
    /// had lost the device's token (K11).
    func mayHaveLostHeldStart(_ outcomes: [Outcome]) -> Bool { losses.count > 0 && outcomes.contains(.held) }

    /// Notes a state that a phone is about to ignore after a loss, because the phone shows an older state with a higher
    /// timestamp. Redis had raised this timestamp above the shown state's own one (R11), and has lost how far (K30).
    func noteIfIgnored(_ state: SimulatedPhone.ShownState, by phone: SimulatedPhone) {
        guard losses.count > 0, let shownState = phone.shownState, state.timestamp < shownState.timestamp,
            state.version > shownState.version, shownState.timestamp > shownState.version.timestamp
        else { return }
        trace?("\(now % 1_000_000) \(phone.activity) ignores \(state.version): its timestamp is too low")
        losses.ignoredVersions[phone.activity, default: []].insert(state.version)
    }

    /// Whether a phone may miss the activity's last state after a loss.
    func mayMissAfterLoss(_ version: Version, of activity: String) -> Bool {
        losses.wasUnnoticed || losses.ignoredVersions[activity]?.contains(version) ?? false
    }
}
