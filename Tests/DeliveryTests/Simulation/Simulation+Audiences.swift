import ActivityStore
import LiveActivity
import Testbed

@testable import Delivery

/// The audiences of a run, with all entries that they have received from the workers.
struct SimulatedAudiences {
    /// A member joins or leaves an audience.
    struct Entry {
        var atMilliseconds: Int64
        var isLeaving: Bool
    }

    /// The entries in the order of their arrival, by audience and member.
    var entries: [AudienceDigest: [String: [Entry]]] = [:]
    /// The audiences that an activity's last registration names, by activity.
    var namedAudiences: [String: [AudienceDigest]] = [:]

    /// Whether the latest entry of the member is a join. If several entries have the latest time, the last to arrive
    /// counts.
    func isMember(_ member: String, of audience: AudienceDigest) -> Bool {
        guard let memberEntries = entries[audience]?[member], let latest = memberEntries.map(\.atMilliseconds).max()
        else { return false }
        return memberEntries.last { $0.atMilliseconds == latest }.map { !$0.isLeaving } ?? false
    }
}

/// A membership change that the audiences have not received yet.
struct UndeliveredMembershipChange {
    var dueMilliseconds: Int64
    var member: ChangingMember
    var identifier: String
    var entries: [(audience: AudienceDigest, entry: SimulatedAudiences.Entry)]
}

extension Simulation {
    private static func digest(_ name: String) -> AudienceDigest {
        Array(name.utf8).withUnsafeBytes { AudienceDigest(of: $0) }
    }

    /// Chooses at random the audiences that the activity's next registration names. Returns the registration's JSON
    /// member `audiences`. The text may be empty: if the run has no audiences, or if none is chosen.
    func chooseNamedAudiences(of activity: String) -> String {
        guard parameters.audienceCount > 0 else { return "" }
        let names = (0..<parameters.audienceCount).filter { _ in random.chance(500) }.map { "m\($0)" }
        audiences.namedAudiences[activity] = names.map(Self.digest)
        return names.isEmpty && random.chance(500) ? "" : "\"audiences\":\(names),"
    }

    func makeAudienceCommands() {
        for number in 1...10 {
            let (at, audience) = (
                now + Int64(random.number(0...4_000)), "m\(random.number(0...parameters.audienceCount - 1))"
            )
            let value = """
                {"app":"\(Simulation.app)","audience":"\(audience)","id":"\(audience)#\(number)",\
                "aps":{"event":"update","timestamp":\(at / 1_000),"content-state":{"content":\(number)}}}
                """
            scheduledEvents.append(
                (
                    at,
                    { [self] in _ = log.append(topic: SimulatedLog.commandsTopic, key: audience, value: value, at: at) }
                )
            )
        }
    }

    // MARK: - In place of the core `Audiences`

    func simulateAudiences(_ worker: SimulatedWorker) {
        while let record = worker.delivery.nextHandover {
            worker.delivery.removeNextHandover()
            worker.handovers.append((now + Int64(random.number(0...parameters.latencyMillisecondsMax)), record))
        }
        while let change = worker.delivery.nextMembershipChange {
            // The changes of a worker arrive in order, because the order decides between entries with the same time.
            let earliestMilliseconds = worker.undeliveredMembershipChanges.last?.dueMilliseconds ?? now
            let dueMilliseconds = max(
                earliestMilliseconds,
                now + Int64(random.number(0...parameters.latencyMillisecondsMax))
            )
            worker.undeliveredMembershipChanges.append(
                makeUndeliveredChange(
                    change,
                    worker.delivery.view(change.member.record),
                    dueMilliseconds: dueMilliseconds
                )
            )
            worker.delivery.removeNextMembershipChange()
        }
        endDueHandovers(worker)
        let due = worker.undeliveredMembershipChanges.filter { $0.dueMilliseconds <= now }
        worker.undeliveredMembershipChanges.removeAll { $0.dueMilliseconds <= now }
        for change in due {
            for entry in change.entries { appendEntry(entry.audience, change.identifier, entry.entry) }
            worker.delivery.handleNotifiedAudiences(change.member, now: worker.moment(now))
        }
    }

    private func makeUndeliveredChange(_ change: MembershipChange, _ view: RecordView, dueMilliseconds: Int64)
        -> UndeliveredMembershipChange
    {
        let leaving = SimulatedAudiences.Entry(atMilliseconds: change.leftAtWallMilliseconds, isLeaving: true)
        let joining = SimulatedAudiences.Entry(atMilliseconds: view.registeredAtWallMilliseconds, isLeaving: false)
        return UndeliveredMembershipChange(
            dueMilliseconds: dueMilliseconds,
            member: change.member,
            identifier: String(decoding: view.memberIdentifier(change.member.kind), as: UTF8.self),
            entries: change.leftAudiences.map { ($0, leaving) } + change.joinedAudiences.map { ($0, joining) }
        )
    }

    private func appendEntry(_ audience: AudienceDigest, _ member: String, _ entry: SimulatedAudiences.Entry) {
        audiences.entries[audience, default: [:]][member, default: []].append(entry)
    }

    private func endDueHandovers(_ worker: SimulatedWorker) {
        let due = worker.handovers.filter { $0.dueMilliseconds <= now }
        worker.handovers.removeAll { $0.dueMilliseconds <= now }
        for (_, record) in due {
            let view = worker.delivery.view(record)
            let ending: HandoverResult
            if worker.delivery.isPartitionRevoked(record), random.chance(500) {
                ending = .dropped
            } else if random.chance(500) {
                let partition = SimulatedLog.Partition(
                    topic: SimulatedLog.commandsTopic,
                    number: Int(view.sourcePartition)
                )
                acknowledgedOffsets[partition, default: []].insert(view.sourceOffset)
                ending = .fannedOut
            } else {
                ending = .outcome(random.chance(500) ? .superseded : .unchanged)
            }
            worker.delivery.endHandover(record, ending, now: worker.moment(now))
        }
    }

    /// Delivers some of the changes that a dying worker was sending to the audiences. Chance decides which.
    func deliverSomeMembershipChanges(of worker: SimulatedWorker) {
        for change in worker.undeliveredMembershipChanges {
            for entry in change.entries where random.chance(500) {
                appendEntry(entry.audience, change.identifier, entry.entry)
            }
        }
    }

    // MARK: - The invariant

    /// Checks at the end of a run that each activity is in exactly the audiences that Redis lists for it. If Redis has
    /// the activity's last registration, these must also be the audiences that this registration names.
    func checkAudiences() {
        guard parameters.audienceCount > 0, !wasRedisWiped else { return }
        let allAudiences = (0..<parameters.audienceCount).map { Self.digest("m\($0)") }
        for (activity, phone) in phones.sorted(by: { $0.key < $1.key }) {
            let key = StoreModel.key(
                of: StoreSubject(app: Array(Self.app.utf8), kind: .activity, identifier: Array(activity.utf8))
            )
            guard let storedActivity = store.activities[key] else { continue }
            if !storedActivity.audiences.formerDigests.isEmpty {
                violations.append("\(activity): audiences that it left were never told")
            }
            let memberships = Set(allAudiences.filter { audiences.isMember(activity, of: $0) }.map(\.value))
            if memberships != Set(storedActivity.audiences.currentDigests) {
                violations.append(
                    "\(activity): \(memberships) have it, it is in \(storedActivity.audiences.currentDigests)"
                )
            }
            guard let token = storedActivity.token, token.token == phone.token.map({ Array($0.utf8) }), !phone.hasEnded,
                let expectedAudiences = audiences.namedAudiences[activity],
                token.registeredAtMilliseconds == phone.registeredAtMilliseconds
            else { continue }
            if Set(expectedAudiences.map(\.value)) != memberships {
                violations.append("\(activity): \(memberships) have it, its registration names \(expectedAudiences)")
            }
        }
    }
}
