import Delivery
import LiveActivity

/// Names a change of a member's audiences by the index of its slot in `Audiences.membershipChanges`.
typealias MembershipChangeIndex = SlabIndex<MembershipChangeSlot>

/// A change of a member's audiences. If the member joins an audience, the slot also names the state that the member
/// will be shown.
///
/// When a later change of the same member has come, this change only notifies its audiences. Then it ends, as soon as
/// none of its calls and pushes is under way.
struct MembershipChangeSlot: LinkedSlot {
    /// ``enter(_:)`` traps on a change of phase that is not listed here.
    ///
    ///     queued ─► notifying                   the member's earlier change is written into its audiences
    ///     notifying ─► requestingStates         the member must be shown a state
    ///     requestingStates ─► awaitingPush      a state is chosen
    ///     requestingStates ─► backingOff        the core has too little room for a state
    ///     awaitingPush ─► underWay              the pool takes the push
    ///     awaitingPush ─► requestingStates      the state is too old by now
    ///     awaitingPush ─► backingOff            the pool's budget refuses the retry
    ///     underWay ─► awaitingPush              no stream was free for the push
    ///     underWay ─► backingOff                the push must be sent again after APNs' response
    ///     backingOff ─► requestingStates        the pause is over
    ///     every phase except queued ─► slot freed    the change ends
    enum Phase: UInt8, BitwiseCopyable {
        /// The change waits until an earlier change of the same member is written into its audiences. The order
        /// matters, because an audience keeps the last of several entries with the same time. Each change begins in
        /// this phase.
        case queued
        /// The core writes the member's entry into one audience after the other.
        case notifying
        /// The core requests the newest state of each joined audience, one after the other.
        case requestingStates
        /// The member waits in its pool's queue for a push.
        case awaitingPush
        /// The push is in flight.
        case underWay
        /// The push failed for a temporary reason, the pool's budget refused the retry, or the core had too little room
        /// for a state. After a pause, the core requests the newest states again.
        case backingOff

        fileprivate func canChange(to next: Phase) -> Bool {
            switch (self, next) {
            case (.queued, .notifying): true
            case (.notifying, .requestingStates): true
            case (.requestingStates, .awaitingPush), (.requestingStates, .backingOff): true
            case (.awaitingPush, .underWay), (.awaitingPush, .requestingStates), (.awaitingPush, .backingOff): true
            case (.underWay, .awaitingPush), (.underWay, .backingOff): true
            case (.backingOff, .requestingStates): true
            default: false
            }
        }
    }

    let member: ChangingMember
    /// The partition of the record that caused the change.
    let partition: Int32
    let environment: APNsEnvironment
    let allowsFrequentUpdates: Bool
    let supportsChannels: Bool
    let registeredAtWallMilliseconds: Int64
    /// When the member left audiences, UNIX milliseconds. No meaning if it left none.
    let leftAtWallMilliseconds: Int64
    /// The version that the activity already shows (``IncomingMembershipChange/shownVersion``).
    let shownVersion: Version?
    /// Whether the member was already in every audience that it joins, so that the change brings only new data.
    private let wasMemberOfAllAudiences: Bool
    /// The member's id, the digits of its token, the digests of the audiences that it left, and the digests of those
    /// that it joins or stays in. All are in one block of memory, so that a change needs only one allocation.
    private let packedFields: HeapBytes
    private let identifierByteCount: Int
    private let tokenByteCount: Int
    private let leftAudienceCount: Int

    private(set) var phase = Phase.queued
    /// The next change of the same member; `.null`: none.
    var nextChangeOfMember = MembershipChangeIndex.null
    /// For how many audiences Redis has acknowledged or permanently refused the member's entry.
    var notifiedAudienceCount = 0
    /// How many of the requests for the newest states of the joined audiences are answered: the store has replied, or
    /// has refused the request.
    var answeredStateRequestCount = 0
    /// The next change in the list of changes that wait for the same reply of the store, or for a push in the same
    /// pool.
    var nextInList = MembershipChangeIndex.null
    /// The slot in `newestStates` of the state that the member will be shown; `.null`: none is chosen.
    var newestState = NewestStateIndex.null
    /// When the chosen state expires, UNIX seconds; -1: none was chosen yet. The slot of the state may be free by now.
    var stateExpirationSeconds: Int64 = -1
    /// When the last of the member's requests for states was answered (monotonic milliseconds); `.min`: not yet, or the
    /// states must be requested again.
    var lastStateReplyAtMilliseconds: Int64 = .min
    var failedAttemptCount: UInt8 = 0
    /// How often APNs has called the token dead although it may be valid (``Audiences/mayTokenBeValid(_:_:now:)``).
    var deadTokenRefusalCount: UInt8 = 0
    /// Whether the member has been queued for ``Audiences/takeMemberToSettle()``, after which `Delivery` settles the
    /// member's registration. Each change queues its member once.
    var wasQueuedToSettle = false
    /// Whether a later change of the same member has come, which shows the member the newest state instead.
    var isOverriddenByLaterChange = false
    /// When the last audience was notified (monotonic milliseconds); `.max`: not yet.
    var allAudiencesNotifiedAtMilliseconds: Int64 = .max
    /// When the core gives up the push because the registration's partition has moved (monotonic milliseconds,
    /// `Audiences+MovedJoiners`). `.max`: the partition has not moved, or it has come back and no other worker can have
    /// settled its records.
    var partitionMoveWaitEndMilliseconds: Int64 = .max
    /// Below this offset, all records of the partition were settled when the partition moved; `.min`: it has not moved.
    var settledEndOffsetAtMove: Int64 = .min
    /// When the core must check the change again (monotonic milliseconds); `.max`: no time is set.
    var nextCheckAtMilliseconds: Int64 = .max
    /// When the timer for this slot fires (monotonic milliseconds); `.max` if none is set.
    var timerDueMilliseconds: Int64 = .max

    init(_ incoming: IncomingMembershipChange) {
        member = incoming.member
        partition = incoming.partition
        environment = incoming.environment
        allowsFrequentUpdates = incoming.allowsFrequentUpdates
        supportsChannels = incoming.supportsChannels
        registeredAtWallMilliseconds = incoming.registeredAtWallMilliseconds
        leftAtWallMilliseconds = incoming.leftAtWallMilliseconds
        shownVersion = incoming.shownVersion
        wasMemberOfAllAudiences = incoming.wasMemberOfAllAudiences
        identifierByteCount = incoming.identifier.count
        tokenByteCount = incoming.token.count
        // If the member left an audience and joined it again, the audience keeps only the later of the two entries. So
        // the entry about leaving is needed only if it is the later one.
        let leftAudiences = incoming.leftAudiences.filter { audience in
            incoming.leftAtWallMilliseconds > incoming.registeredAtWallMilliseconds
                || !incoming.joinedAudiences.contains(audience)
        }
        leftAudienceCount = leftAudiences.count
        let audiences = leftAudiences + incoming.joinedAudiences
        packedFields = HeapBytes(
            count: identifierByteCount + tokenByteCount + audiences.count * AudienceList.digestBytes
        )
        UnsafeMutableRawBufferPointer(rebasing: packedFields.mutableBuffer[..<identifierByteCount])
            .copyMemory(from: incoming.identifier)
        UnsafeMutableRawBufferPointer(
            rebasing: packedFields.mutableBuffer[identifierByteCount...].prefix(tokenByteCount)
        )
        .copyMemory(from: incoming.token)
        for (index, audience) in audiences.enumerated() {
            packedFields.mutableBuffer.storeBytes(
                of: audience.value.littleEndian,
                toByteOffset: identifierByteCount + tokenByteCount + index * AudienceList.digestBytes,
                as: UInt64.self
            )
        }
    }

    /// Changes the phase. Traps if the current phase does not lead to `next`.
    mutating func enter(_ next: Phase) {
        precondition(phase.canChange(to: next), "a membership change cannot enter this phase from the one it is in")
        phase = next
    }

    var identifier: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: packedFields.bytes[..<identifierByteCount])
    }
    var token: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: packedFields.bytes[identifierByteCount...].prefix(tokenByteCount))
    }
    /// The audiences that the change concerns: first those that the member left, then those that it joins or stays in.
    var audiences: AudienceList {
        AudienceList(UnsafeRawBufferPointer(rebasing: packedFields.bytes[(identifierByteCount + tokenByteCount)...]))
    }
    var joinedAudienceCount: Int { audiences.count - leftAudienceCount }
    func joinedAudience(_ index: Int) -> AudienceDigest { audiences[leftAudienceCount + index] }

    /// What the change means for the audience that is notified next: the member left it, joined it, or has a new token
    /// or other new data.
    var changeKindForNextAudience: MembershipChangeKind {
        notifiedAudienceCount < leftAudienceCount ? .left : wasMemberOfAllAudiences ? .updated : .joined
    }

    /// The entry about the member for the audience that is notified next.
    var entryForNextAudience: MemberEntry<UnsafeRawBufferPointer> {
        let isLeaving = notifiedAudienceCount < leftAudienceCount
        return MemberEntry(
            location: MemberLocation(of: identifier),
            isLeaving: isLeaving,
            kind: member.kind,
            environment: environment,
            allowsFrequentUpdates: allowsFrequentUpdates,
            supportsChannels: supportsChannels,
            changedAtMilliseconds: isLeaving ? leftAtWallMilliseconds : registeredAtWallMilliseconds,
            identifier: identifier,
            token: isLeaving ? UnsafeRawBufferPointer(start: nil, count: 0) : token
        )
    }

    func freeBytes() { packedFields.free() }
}

/// Identifies a member whose changes must reach its audiences one after the other. `location` is a hash of the member's
/// id.
///
/// Rarely, two members have the same hash, and count as one member. If both change at the same time, the second change
/// waits for the first, and the member of the first change is not shown the newest state.
struct MemberKey: Hashable {
    let appIndex: UInt16
    let kind: StoreSubjectKind
    let location: MemberLocation

    init(_ member: ChangingMember, identifier: UnsafeRawBufferPointer) {
        (appIndex, kind, location) = (member.appIndex, member.kind, MemberLocation(of: identifier))
    }
}

/// Names a request for an audience's newest state by the index of its slot in `Audiences.newestStateRequests`.
typealias NewestStateRequestIndex = SlabIndex<NewestStateRequest>

/// A request for an audience's newest state, on behalf of members that have joined the audience.
struct NewestStateRequest: BitwiseCopyable {
    let key: AudienceKey
    /// The changes that wait for the store's reply to this request.
    var changes = LinkedList<MembershipChangeSlot>()
    /// The changes that came after this request was queued. The store may have read the state before the members of
    /// these changes joined the audience, so the request is made once more.
    var changesForNextRequest = LinkedList<MembershipChangeSlot>()

    init(_ key: AudienceKey) { self.key = key }
}

/// Names the newest state of one audience by the index of its slot in `Audiences.newestStates`.
typealias NewestStateIndex = SlabIndex<NewestStateSlot>

/// The newest state of an audience, from a reply of the store. All members that have joined the audience and wait for a
/// push with this state share the slot.
struct NewestStateSlot: BitwiseCopyable {
    let audience: AudienceDigest
    let timestamp: Int64
    /// When the state expires, UNIX seconds. The core does not send the state after this time.
    let expirationSeconds: Int64
    /// The expiration that the state's command names, UNIX seconds; -1: it names none.
    let ownExpirationSeconds: Int64
    let isEnd: Bool
    /// The body of the push, without an alert.
    let body: HeapBytes
    /// The number of members that use the state.
    var referenceCount = 0

    init(_ audience: AudienceDigest, _ reply: Audiences.Reply, _ version: Version, _ body: HeapBytes) {
        self.audience = audience
        timestamp = reply.timestamp
        isEnd = reply.isEnd
        self.body = body
        expirationSeconds = reply.expirationSeconds
        // Redis stores only when the state expires: the time that its command names or, without such a time, the time
        // at which it becomes too old. If the state becomes too old at just this time, the command is taken to name
        // none.
        let expirationByAgeSeconds = AgeRules.stateExpirationSeconds(
            timestamp: version.timestamp,
            isEnd: reply.isEnd,
            ownExpirationSeconds: -1
        )
        ownExpirationSeconds = expirationSeconds == expirationByAgeSeconds ? -1 : expirationSeconds
    }
}
