import LiveActivity

/// The calls that record a member's joining and leaving in the audiences, after a store call has changed the member's
/// value. A lane makes the same calls, so a rebuild leaves the audiences as a worker would.
struct MembershipRebuildCalls {
    /// The calls that write the member's entries to the pages of audiences: first for the audiences that the member has
    /// left, then for those that it has joined.
    let entryCalls: [AudienceCall<[UInt8]>]
    let joinCount: Int
    /// The call that tells Redis that all entries about left audiences are written (R27). Nil if the member left no
    /// audience.
    let departureConfirmationCall: StoreCall<[UInt8]>?

    var leaveCount: Int { entryCalls.count - joinCount }

    /// Finds out from a store call and its reply which audiences the member joins and has left. Returns nil if there
    /// are none.
    init?(_ call: StoreCall<[UInt8]>, _ reply: StoreReply<[UInt8]>) {
        let subject = call.subject
        let joiningMember = reply.verdict == .registered ? JoiningMember(call.operation) : nil
        let joinedAudiences = joiningMember?.audiences ?? []
        let departures = (reply.departures ?? [])
            .withUnsafeBytes { bytes in
                AudienceDepartures(bytes)
                    .map { (audiences: Array($0.audiences), leftAtMilliseconds: $0.leftAtMilliseconds) }
            }
        guard !joinedAudiences.isEmpty || departures != nil else { return nil }
        let location = subject.identifier.withUnsafeBytes { MemberLocation(of: $0) }
        func makeEntryCall(_ audience: AudienceDigest, _ member: JoiningMember?, at milliseconds: Int64)
            -> AudienceCall<
                [UInt8]
            >
        {
            let entry = MemberEntry<[UInt8]>(
                location: location,
                isLeaving: member == nil,
                kind: subject.kind,
                environment: member?.registration.environment ?? .production,
                allowsFrequentUpdates: member?.allowsFrequentUpdates ?? false,
                supportsChannels: member?.supportsChannels ?? false,
                changedAtMilliseconds: milliseconds,
                identifier: subject.identifier,
                token: member?.registration.token ?? []
            )
            return AudienceCall(tag: 0, app: subject.app, audience: audience, operation: .append(entry))
        }
        var entryCalls: [AudienceCall<[UInt8]>] = []
        var departureConfirmationCall: StoreCall<[UInt8]>?
        if let departures {
            // Write an entry for each audience that the member has left. Exception: the registration of this call joins
            // the audience again, and is at least as new as the departure.
            let registeredAtMilliseconds = joiningMember?.registration.registeredAtMilliseconds ?? .min
            for audience in departures.audiences
            where departures.leftAtMilliseconds > registeredAtMilliseconds || !joinedAudiences.contains(audience) {
                entryCalls.append(makeEntryCall(audience, nil, at: departures.leftAtMilliseconds))
            }
            departureConfirmationCall = StoreCall(
                tag: 0,
                subject: subject,
                operation: .confirmDepartures(atMilliseconds: departures.leftAtMilliseconds)
            )
        }
        if let joiningMember {
            entryCalls += joinedAudiences.map {
                makeEntryCall($0, joiningMember, at: joiningMember.registration.registeredAtMilliseconds)
            }
        }
        self.entryCalls = entryCalls
        self.departureConfirmationCall = departureConfirmationCall
        joinCount = joinedAudiences.count
    }
}

/// The audience member that a registration describes.
struct JoiningMember {
    let registration: TokenRegistration<[UInt8]>
    let allowsFrequentUpdates: Bool
    let supportsChannels: Bool
    let audiences: [AudienceDigest]

    /// Makes the member from a store call that registers a token. Returns nil for any other call, and for a
    /// registration that names no audience.
    init?(_ operation: StoreCall<[UInt8]>.Operation) {
        let audienceList: [UInt8]?
        switch operation {
        case .register(let registration, let allowsFrequentUpdates, _, _, let audiences):
            (self.registration, self.allowsFrequentUpdates, audienceList) = (
                registration, allowsFrequentUpdates != false, audiences
            )
            supportsChannels = false
        case .registerDevice(_, let registration, let step, _):
            (self.registration, allowsFrequentUpdates, audienceList) = (registration, false, step.audiences)
            if case .registerToken(_, let supportsChannels) = step {
                self.supportsChannels = supportsChannels
            } else {
                supportsChannels = false
            }
        default: return nil
        }
        audiences = (audienceList ?? []).withUnsafeBytes { Array(AudienceList($0)) }
        if audiences.isEmpty { return nil }
    }
}
