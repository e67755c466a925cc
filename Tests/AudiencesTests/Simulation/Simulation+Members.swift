import ActivityStore
import LiveActivity
import Testbed

@testable import Audiences
@testable import Delivery

/// A member joins, leaves or gets another token. The core gets this change, and reports when the change is done.
struct SimulatedMembershipChange {
    let member: ChangingMember
    let name: String
    let token: String
    let isLeaving: Bool
    let atMilliseconds: Int64
    /// Whether the registration also names a second audience, to which no command was sent.
    let namesSecondAudience: Bool
    /// If the worker reads the registration again because the store has lost its data: the number of this loss. Nil if
    /// the worker reads it for the first time.
    var rereadAfterWipe: Int?
    /// Whether the core has got this change.
    var isGivenToCore = false
    /// The value of ``Simulation/newestAdmittedContent`` when the core got this change. In a run without faults, a
    /// member that has joined must show this content or a newer one.
    var newestAdmittedContent = -1
}

extension Simulation {
    /// Adds a member to its segment before the run begins.
    func addMember(_ name: String) {
        var phone = makePhone(name)
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
        _ = store.perform(makeCall(.append(entry)))
    }

    private func makePhone(_ name: String) -> SimulatedPhone {
        phoneNames.append(name)
        return SimulatedPhone(
            identifier: name,
            location: SimulatedNames.location(of: name),
            environment: random.chance(parameters.sandboxPerMille) ? .sandbox : .production,
            allowsFrequentUpdates: random.chance(300),
            token: makeToken(for: name),
            registeredAtMilliseconds: nowMilliseconds
        )
    }

    private func makeToken(for name: String) -> String {
        nextToken += 1
        let digits = String(nextToken, radix: 16)
        let token = String(repeating: "0", count: 64 - digits.count) + digits
        phoneNamesByToken[token] = name
        return token
    }

    func changeMember() {
        let name = phoneNames[random.number(0...phoneNames.count - 1)]
        guard phones[name]?.isDevice == false else { return }
        // The latest change of a member decides, so two changes of a member must not have the same time.
        guard !changes.contains(where: { $0.name == name && $0.atMilliseconds == nowMilliseconds }) else { return }
        hadMembershipChange = true
        switch random.number(0...2) {
        case 0:
            phones[name]?.hasLeft = true
            phones[name]?.leaveAcknowledgedAtMilliseconds = .max
        case 1:
            // The old token is dead as soon as the phone has a new one, also before a worker has read the registration.
            // Pushes to the old token reach nobody.
            guard var phone = phones[name] else { return }
            phoneNamesByToken[phone.token] = nil
            phone.token = makeToken(for: name)
            phone.registeredAtMilliseconds = nowMilliseconds
            (phone.hasLeft, phone.isTokenDead) = (false, false)
            phones[name] = phone
        default:
            let names = parameters.hasLongIdentifiers ? SimulatedNames.longNames : SimulatedNames.names
            let segment = random.number(0...parameters.segmentCount - 1)
            let newName = names[segment][
                random.number(SimulatedNames.namesPerSegment - 10...SimulatedNames.namesPerSegment - 1)
            ]
            guard phones[newName] == nil else { return }
            phones[newName] = makePhone(newName)
            return addChangeNow(of: newName)
        }
        addChangeNow(of: name)
    }

    private func addChangeNow(of name: String) {
        guard let phone = phones[name] else { return }
        phones[name]?.wasMemberThroughout = false
        addChange(of: phone, atMilliseconds: nowMilliseconds)
    }

    func addChange(of phone: SimulatedPhone, atMilliseconds: Int64, rereadAfterWipe wipeNumber: Int? = nil) {
        createdChangeCount += 1
        let kind: StoreSubjectKind = phone.isDevice ? .device : .activity
        changes.append(
            SimulatedMembershipChange(
                member: ChangingMember(record: RecordIndex(rawValue: createdChangeCount), appIndex: 0, kind: kind),
                name: phone.identifier,
                token: phone.token,
                isLeaving: phone.hasLeft,
                atMilliseconds: atMilliseconds,
                namesSecondAudience: random.chance(300),
                rereadAfterWipe: wipeNumber
            )
        )
    }

    func feedChanges(_ worker: SimulatedWorker) {
        for index in changes.indices where !changes[index].isGivenToCore && worker.core.canReceiveMembershipChange {
            changes[index].isGivenToCore = true
            changes[index].newestAdmittedContent = newestAdmittedContent
            give(changes[index], to: worker)
        }
    }

    private func give(_ change: SimulatedMembershipChange, to worker: SimulatedWorker) {
        trace?("\(nowMilliseconds % 1_000_000) \(worker.number) change \(change)")
        let secondAudience = Array("other".utf8).withUnsafeBytes { AudienceDigest(of: $0) }
        let audiences = change.namesSecondAudience ? [secondAudience, Self.audienceDigest] : [Self.audienceDigest]
        let digests = audiences.map(\.value.littleEndian)
        guard let phone = phones[change.name] else { return }
        digests.withUnsafeBytes { digests in
            let none = UnsafeRawBufferPointer(start: nil, count: 0)
            var (name, token) = (change.name, change.token)
            name.withUTF8 { name in
                token.withUTF8 { token in
                    worker.core.receiveMembershipChange(
                        IncomingMembershipChange(
                            member: change.member,
                            identifier: UnsafeRawBufferPointer(name),
                            joinedAudiences: AudienceList(change.isLeaving ? none : digests),
                            leftAudiences: AudienceList(change.isLeaving ? digests : none),
                            leftAtWallMilliseconds: change.isLeaving ? change.atMilliseconds : 0,
                            token: change.isLeaving ? none : UnsafeRawBufferPointer(token),
                            environment: phone.environment,
                            registeredAtWallMilliseconds: change.atMilliseconds,
                            allowsFrequentUpdates: phone.allowsFrequentUpdates,
                            shownVersion: nil
                        ),
                        now: worker.moment(nowMilliseconds)
                    )
                }
            }
        }
    }

    func takeMembersToSettle(_ worker: SimulatedWorker) {
        while let member = worker.core.takeMemberToSettle() {
            guard workers[commandWorkerIndex] === worker, let index = changes.firstIndex(where: { $0.member == member })
            else { continue }
            let change = changes.remove(at: index)
            trace?("\(nowMilliseconds % 1_000_000) \(worker.number) changed \(change.name.suffix(12))")
            if let wipeNumber = change.rereadAfterWipe { noteRereadRegistration(afterWipe: wipeNumber) }
            guard !changes.contains(where: { $0.name == change.name }), let phone = phones[change.name] else {
                continue
            }
            if change.isLeaving { phones[change.name]?.leaveAcknowledgedAtMilliseconds = nowMilliseconds }
            // If there are enough streams, a new member shows the newest state before its registration settles.
            if parameters.kind == .calm, parameters.startsPerMille == 0, parameters.streamsMax >= 10, !phone.hasLeft,
                phone.token == change.token,
                !phone.isTokenDead,
                phone.shownContent < change.newestAdmittedContent
            {
                violations.append(
                    "\(change.name.suffix(12)) shows \(phone.shownContent), not \(change.newestAdmittedContent), when it has joined"
                )
            }
        }
    }

    /// Checks that a push does not go to a member that has left. For a second after the core has reported the leave,
    /// the member may still get pushes that were in flight, or for which its page had been read.
    func checkMemberHasNotLeft(_ token: String) {
        guard let name = phoneNamesByToken[token], let phone = phones[name], phone.hasLeft,
            phone.leaveAcknowledgedAtMilliseconds < nowMilliseconds - 1_000
        else { return }
        violations.append(
            "\(name.suffix(12)) is sent to at \(nowMilliseconds), and has left at \(phone.leaveAcknowledgedAtMilliseconds)"
        )
    }
}
