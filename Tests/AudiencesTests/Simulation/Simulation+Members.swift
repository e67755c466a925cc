import ActivityStore
import LiveActivity
import Testbed

@testable import Audiences
@testable import Delivery

/// A member joins, leaves or gets another token. The simulation gives this change to the core of audiences,
/// which reports when the change is done.
struct SimulatedChange {
    let member: ChangingMember
    let name: String
    let token: String
    let isLeaving: Bool
    let atMilliseconds: Int64
    /// Whether the registration also names a second audience, to which no command was sent.
    let namesSecondAudience: Bool
    /// The number of the store's loss after which the worker reads the registration again; nil if the worker
    /// reads it for the first time.
    var rereadAfter: Int?
    var isTaken = false
    /// The value of ``Simulation/newestAdmittedContent`` when the core got this change. In a calm run, a member that
    /// has joined must show this content or a newer one.
    var newestAdmittedContent = -1
}

extension Simulation {
    /// Adds a member to its segment before the run begins.
    func addMember(_ name: String) {
        var phone = newPhone(name)
        phone.isDevice = random.chance(parameters.devicesPerMille)
        phone.registeredAtMilliseconds = nowMilliseconds - 10_000
        phones[name] = phone
        let entry = MemberEntry<[UInt8]>(
            location: phone.location,
            isLeaving: false,
            kind: phone.isDevice ? .device : .activity,
            environment: phone.environment,
            allowsFrequentUpdates: phone.allowsFrequentUpdates,
            changedAtMilliseconds: phone.registeredAtMilliseconds,
            identifier: Array(name.utf8),
            token: Array(phone.token.utf8)
        )
        _ = store.perform(call(.append(entry)))
    }

    private func newPhone(_ name: String) -> SimulatedPhone {
        phoneNames.append(name)
        return SimulatedPhone(
            identifier: name,
            location: SimulatedNames.location(of: name),
            environment: random.chance(parameters.sandboxPerMille) ? .sandbox : .production,
            allowsFrequentUpdates: random.chance(300),
            token: newToken(of: name),
            registeredAtMilliseconds: nowMilliseconds
        )
    }

    private func newToken(of name: String) -> String {
        nextToken += 1
        let digits = String(nextToken, radix: 16)
        let token = String(repeating: "0", count: 64 - digits.count) + digits
        phoneNamesByToken[token] = name
        return token
    }

    func changeMember() {
        let known = phoneNames[random.number(0...phoneNames.count - 1)]
        guard phones[known]?.isDevice == false else { return }
        // The latest change of a member decides, so two changes of a member must not have the same time.
        guard !changes.contains(where: { $0.name == known && $0.atMilliseconds == nowMilliseconds }) else { return }
        hadMembershipChange = true
        switch random.number(0...2) {
        case 0:
            phones[known]?.hasLeft = true
            phones[known]?.leftAcknowledgedAtMilliseconds = .max
        case 1:
            // The old token is dead as soon as the phone has a new one, also before a worker has read the registration.
            // Pushes to the old token reach nobody.
            guard var phone = phones[known] else { return }
            phoneNamesByToken[phone.token] = nil
            phone.token = newToken(of: known)
            phone.registeredAtMilliseconds = nowMilliseconds
            (phone.hasLeft, phone.isDead) = (false, false)
            phones[known] = phone
        default:
            let names = parameters.idBytes > 0 ? SimulatedNames.longNames : SimulatedNames.names
            let segment = random.number(0...parameters.segments - 1)
            let other = names[segment][
                random.number(SimulatedNames.namesPerSegment - 10...SimulatedNames.namesPerSegment - 1)
            ]
            guard phones[other] == nil else { return }
            phones[other] = newPhone(other)
            return change(other)
        }
        change(known)
    }

    private func change(_ name: String) {
        guard let phone = phones[name] else { return }
        phones[name]?.wasMemberThroughout = false
        addChange(of: phone, atMilliseconds: nowMilliseconds)
    }

    func addChange(of phone: SimulatedPhone, atMilliseconds: Int64, rereadAfter wipes: Int? = nil) {
        createdChangeCount += 1
        let kind: StoreSubjectKind = phone.isDevice ? .device : .activity
        changes.append(
            SimulatedChange(
                member: ChangingMember(record: RecordIndex(rawValue: createdChangeCount), appIndex: 0, kind: kind),
                name: phone.identifier,
                token: phone.token,
                isLeaving: phone.hasLeft,
                atMilliseconds: atMilliseconds,
                namesSecondAudience: random.chance(300),
                rereadAfter: wipes
            )
        )
    }

    func feedChanges(_ worker: SimulatedWorker) {
        for index in changes.indices where !changes[index].isTaken && worker.core.canReceiveMembershipChange {
            changes[index].isTaken = true
            changes[index].newestAdmittedContent = newestAdmittedContent
            give(changes[index], to: worker)
        }
    }

    private func give(_ change: SimulatedChange, to worker: SimulatedWorker) {
        trace?("\(nowMilliseconds % 1_000_000) \(worker.number) change \(change)")
        let other = Array("other".utf8).withUnsafeBytes { AudienceDigest(of: $0) }
        let audiences = change.namesSecondAudience ? [other, Self.audienceDigest] : [Self.audienceDigest]
        let digests = audiences.map(\.value.littleEndian)
        guard let phone = phones[change.name] else { return }
        digests.withUnsafeBytes { digests in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            var (name, token) = (change.name, change.token)
            name.withUTF8 { name in
                token.withUTF8 { token in
                    worker.core.receive(
                        membershipChange: IncomingMembershipChange(
                            member: change.member,
                            identifier: UnsafeRawBufferPointer(name),
                            joinedAudiences: AudienceList(change.isLeaving ? none : digests),
                            formerAudiences: AudienceList(change.isLeaving ? digests : none),
                            leftAtMilliseconds: change.isLeaving ? change.atMilliseconds : 0,
                            token: change.isLeaving ? none : UnsafeRawBufferPointer(token),
                            environment: phone.environment,
                            registeredAtMilliseconds: change.atMilliseconds,
                            allowsFrequentUpdates: phone.allowsFrequentUpdates,
                            shownVersion: nil
                        ),
                        now: worker.moment(nowMilliseconds)
                    )
                }
            }
        }
    }

    func takeReturnedMembers(_ worker: SimulatedWorker) {
        while let member = worker.core.takeMemberWithEndedChange() {
            guard workers[commandWorkerIndex] === worker, let index = changes.firstIndex(where: { $0.member == member })
            else { continue }
            let change = changes.remove(at: index)
            trace?("\(nowMilliseconds % 1_000_000) \(worker.number) changed \(change.name.suffix(12))")
            if let wipes = change.rereadAfter { rereadRegistration(after: wipes) }
            guard !changes.contains(where: { $0.name == change.name }), let phone = phones[change.name] else {
                continue
            }
            if change.isLeaving { phones[change.name]?.leftAcknowledgedAtMilliseconds = nowMilliseconds }
            // If there are enough streams, a new member shows the newest state before its registration
            // settles.
            if parameters.kind == .calm, parameters.startsPerMille == 0, parameters.streams >= 10, !phone.hasLeft,
                phone.token == change.token,
                !phone.isDead,
                phone.shownContent < change.newestAdmittedContent
            {
                violations.append(
                    "\(change.name.suffix(12)) shows \(phone.shownContent), not \(change.newestAdmittedContent), when it has joined"
                )
            }
        }
    }

    /// Checks that a member that has left gets no push. For a second after the core has reported the leave, the member
    /// may get pushes that were in flight, or for which its page had been read.
    func checkHasNotLeft(_ token: String) {
        guard let name = phoneNamesByToken[token], let phone = phones[name], phone.hasLeft,
            phone.leftAcknowledgedAtMilliseconds < nowMilliseconds - 1_000
        else { return }
        violations.append(
            "\(name.suffix(12)) is sent to at \(nowMilliseconds), and has left at \(phone.leftAcknowledgedAtMilliseconds)"
        )
    }
}
