import Delivery
import LiveActivity
import Numbers

/// Names a parked member by the index of its slot in `Audiences.parkedMembers`.
typealias ParkedMemberIndex = SlabIndex<ParkedMember>

/// A member that gets its push later, outside its turn in the round (``RoundSlot``). Its pool was unavailable at its
/// turn, or its push failed for a temporary reason, or the previous owner of the partition had parked it.
///
/// The slot has a copy of the member's entry, because the member's page may be freed before the next attempt.
struct ParkedMember: BitwiseCopyable {
    var round: RoundIndex
    // The neighbours in the round's list of parked members; `.null`: there is none.
    var nextParkedMember: ParkedMemberIndex
    var previousParkedMember = ParkedMemberIndex.null
    var position: UInt64
    /// The member's page, which keeps the member's outcome until the round's `completedPosition` has passed the page.
    /// `.null`: the partition's previous owner had parked the member. Such a member is below the completed position,
    /// and needs no page.
    var page: PageIndex
    var memberIndex: UInt16
    var environment: APNsEnvironment
    var kind: StoreSubjectKind
    var allowsFrequentUpdates: Bool
    var failedAttemptCount: UInt8
    /// Whether a push to the member is in flight, the member is being read again, or its refused push is being
    /// recorded.
    var isBeingHandled = false
    /// Whether APNs responded to the last attempt with 429. If so, a carried alert alone is no reason to push to the
    /// member before its next turn (`needsCarriedAlert`).
    var wasThrottled: Bool
    /// The version of the push in flight, or of the refused push that is being recorded; `.null`: there is none.
    var rangeVersion = RangeVersionIndex.null
    var dueMilliseconds: Int64
    /// When the member was read (monotonic milliseconds). The member is read again before a push that comes later than
    /// ``Audiences/memberReadAgeMillisecondsMax`` after this time.
    var readAtMilliseconds: Int64
    /// When the member's token was registered, UNIX milliseconds. If APNs says that the token died before this time,
    /// the member has registered the token again since, and the token may be valid.
    var registeredAtWallMilliseconds: Int64
    // The buffers have room for the longest id (`Limits.identifierBytesMax`) and the longest token
    // (`Limits.tokenDigitsMax` digits, two in a byte), which `copyIdentifierAndToken` checks. The type of a buffer can
    // contain only a literal size.
    private var identifierByteCount: UInt16 = 0
    private var tokenByteCount: UInt8 = 0
    private var identifierBuffer = InlineArray<256, UInt8>(repeating: 0)
    private var tokenBuffer = InlineArray<128, UInt8>(repeating: 0)

    init(
        _ pageMember: PageMember,
        round: RoundIndex,
        nextParkedMember: ParkedMemberIndex,
        coordinates: MemberCoordinates,
        failedAttemptCount: UInt8,
        wasThrottled: Bool,
        readAtMilliseconds: Int64,
        dueMilliseconds: Int64
    ) {
        self.round = round
        self.nextParkedMember = nextParkedMember
        position = coordinates.position
        page = coordinates.page
        memberIndex = UInt16(truncatingIfNeeded: coordinates.memberIndex)
        self.failedAttemptCount = failedAttemptCount
        self.wasThrottled = wasThrottled
        self.dueMilliseconds = dueMilliseconds
        self.readAtMilliseconds = readAtMilliseconds
        environment = pageMember.environment
        kind = pageMember.kind
        allowsFrequentUpdates = pageMember.allowsFrequentUpdates
        registeredAtWallMilliseconds = pageMember.changedAtMilliseconds
        copyIdentifierAndToken(of: pageMember)
    }

    private mutating func copyIdentifierAndToken(of pageMember: PageMember) {
        identifierByteCount = UInt16(
            withUnsafeMutableBytes(of: &identifierBuffer) { pageMember.writeIdentifier(to: $0) }
        )
        let token = pageMember.token
        withUnsafeMutableBytes(of: &tokenBuffer) {
            // `PageMember` accepts no longer token from the store, so a longer one here is a fault of this project.
            precondition(token.count <= Limits.tokenDigitsMax / 2 && token.count <= $0.count, "a token is too long")
            $0.copyMemory(from: token)
        }
        tokenByteCount = UInt8(token.count)
    }

    /// Replaces the copy of the member's entry by the entry that was read again, because the member may have another
    /// token.
    mutating func replaceEntry(by pageMember: PageMember, readAtMilliseconds: Int64) {
        self.readAtMilliseconds = readAtMilliseconds
        environment = pageMember.environment
        allowsFrequentUpdates = pageMember.allowsFrequentUpdates
        registeredAtWallMilliseconds = pageMember.changedAtMilliseconds
        copyIdentifierAndToken(of: pageMember)
    }

    /// Whether an entry of a page has the id of this member.
    func hasSameIdentifier(as pageMember: PageMember) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: Limits.identifierBytesMax, alignment: 1) { buffer in
            let count = pageMember.writeIdentifier(to: buffer)
            return withIdentifier { $0.hasSameBytes(as: UnsafeRawBufferPointer(rebasing: buffer[..<count])) }
        }
    }

    /// Writes the token's digits in lower case and returns their number.
    ///
    /// - Parameter destination: has room for ``Limits/tokenDigitsMax`` bytes.
    func writeToken(to destination: UnsafeMutableRawBufferPointer) -> Int {
        withUnsafeBytes(of: tokenBuffer) {
            Hexadecimal.write(UnsafeRawBufferPointer(rebasing: $0[..<Int(tokenByteCount)]), to: destination)
        }
    }

    func withIdentifier<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeBytes(of: identifierBuffer) {
            body(UnsafeRawBufferPointer(rebasing: $0[..<Int(identifierByteCount)]))
        }
    }
}
