import Delivery
import LiveActivity

/// A change of a member's audiences, and of a member that joins what it is to be shown.
///
/// `queued` → `telling` → (`asking` → `ready` → `underWay` → (`resting` → `asking` …)) → over. A later change of the same member ends it as
/// soon as it is told.
struct MembershipSlot: BitwiseCopyable {
    enum Stage: UInt8, BitwiseCopyable {
        /// An earlier change of the same member is being told: of entries of one time the last counts.
        case queued
        /// The audiences get their entries, one after the other.
        case telling
        /// Asks what the audiences that it has joined show, one after the other.
        case asking
        /// In its pool's line.
        case ready
        case underWay
        /// APNs could not take its push: waits before it asks again.
        case resting
    }

    let member: ChangingMember
    let environment: DeviceEnvironment
    let frequentUpdates: Bool
    let takesChannels: Bool
    let registeredAtMilliseconds: Int64
    let leftAtMilliseconds: Int64
    let shows: Version?
    private let wasMember: Bool
    /// The member's id, its token's digits, the audiences that it leaves, those that it joins.
    private let texts: HeapBytes
    private let identifierCount: Int
    private let tokenCount: Int
    private let leavesCount: Int

    var stage = Stage.queued
    /// The next change of the same member.
    var successor: UInt32 = .max
    /// Audiences that are told; of those that it joins, how many are asked.
    var told = 0
    var asked = 0
    /// The next that waits for the same answer, or in the same line.
    var next: UInt32 = .max
    /// What it is to be shown, and since when that is known; monotonic.
    var state: UInt32 = .max
    var stateMilliseconds: Int64 = .min
    var attempts: UInt8 = 0
    /// Whether the core of single activities has it back.
    var isReturned = false
    /// A later change of the member is there.
    var isOverridden = false
    /// When all audiences knew; monotonic.
    var toldMilliseconds: Int64 = .max
    var dueMilliseconds: Int64 = .max
    /// What is armed in the timers.
    var timerMilliseconds: Int64 = .max

    init(_ incoming: IncomingMembership) {
        member = incoming.member
        environment = incoming.environment
        frequentUpdates = incoming.frequentUpdates
        takesChannels = incoming.takesChannels
        registeredAtMilliseconds = incoming.registeredAtMilliseconds
        leftAtMilliseconds = incoming.leftAtMilliseconds
        shows = incoming.shows
        wasMember = incoming.wasMember
        identifierCount = incoming.identifier.count
        tokenCount = incoming.token.count
        // Who joins an audience has not left it, unless it did so later than it registered.
        let leaves = incoming.leaves.filter { left in
            incoming.leftAtMilliseconds > incoming.registeredAtMilliseconds || !incoming.joins.contains(left)
        }
        leavesCount = leaves.count
        let audiences = leaves + incoming.joins
        texts = HeapBytes(count: identifierCount + tokenCount + audiences.count * AudienceList.digestBytes)
        UnsafeMutableRawBufferPointer(rebasing: texts.room[..<identifierCount]).copyMemory(from: incoming.identifier)
        UnsafeMutableRawBufferPointer(rebasing: texts.room[identifierCount...].prefix(tokenCount))
            .copyMemory(from: incoming.token)
        for (place, audience) in audiences.enumerated() {
            texts.room.storeBytes(
                of: audience.value.littleEndian,
                toByteOffset: identifierCount + tokenCount + place * AudienceList.digestBytes,
                as: UInt64.self
            )
        }
    }

    var identifier: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: texts.bytes[..<identifierCount]) }
    var token: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: texts.bytes[identifierCount...].prefix(tokenCount))
    }
    /// Those that it leaves, then those that it joins.
    var audiences: AudienceList {
        AudienceList(UnsafeRawBufferPointer(rebasing: texts.bytes[(identifierCount + tokenCount)...]))
    }
    var joinsCount: Int { audiences.count - leavesCount }
    func joined(_ place: Int) -> AudienceDigest { audiences[leavesCount + place] }

    /// What the next audience is told, in a word.
    var change: MembershipChangeKind { told < leavesCount ? .left : wasMember ? .moved : .joined }

    /// What the next audience is told.
    var entry: MemberEntry<UnsafeRawBufferPointer> {
        let isLeaving = told < leavesCount
        return MemberEntry(
            place: MemberPlace(of: identifier),
            isLeaving: isLeaving,
            kind: member.kind,
            environment: environment,
            frequentUpdates: frequentUpdates,
            takesChannels: takesChannels,
            atMilliseconds: isLeaving ? leftAtMilliseconds : registeredAtMilliseconds,
            identifier: identifier,
            token: isLeaving ? UnsafeRawBufferPointer(start: nil, count: 0) : token
        )
    }

    func freeBytes() { texts.free() }
}

/// Changes of one member are told one after the other. That two members meet in it only makes one wait for the other.
struct MemberKey: Hashable {
    let application: UInt16
    let kind: StoreSubjectKind
    let place: MemberPlace

    init(_ member: ChangingMember, identifier: UnsafeRawBufferPointer) {
        (application, kind, place) = (member.application, member.kind, MemberPlace(of: identifier))
    }
}

/// The question what an audience shows, for all members that have joined it since it was asked last.
struct QuestionSlot: BitwiseCopyable {
    let key: AudienceKey
    /// Members that the answer is for.
    var first: UInt32
    /// Members that joined after the question had left: the answer may be older than their entries.
    var nextFirst: UInt32 = .max

    init(_ key: AudienceKey, for membership: UInt32) {
        self.key = key
        first = membership
    }
}

/// The newest state of an audience, shared by the members that are to be shown it.
struct StateSlot: BitwiseCopyable {
    let audience: AudienceDigest
    let timestamp: Int64
    /// UNIX seconds.
    let expiration: Int64
    let isEnd: Bool
    /// Without an alert.
    let body: HeapBytes
    /// Members that hold it.
    var holders = 0
}
