import Delivery
import LiveActivity

/// Names a refused member by the index of its slot in `Audiences.refusedMembers`.
typealias RefusedMemberIndex = SlabIndex<RefusedMemberSlot>

/// A member whose push APNs refused permanently, for a reason of this push alone. The slot has the data for the records
/// and calls about the member. It is freed when all of them are acknowledged or permanently refused.
struct RefusedMemberSlot: BitwiseCopyable {
    /// The maximum number of bytes that are kept of Apple's reason; the rest of a longer reason is dropped.
    static let reasonBytesMax = 64

    // The push's tag, round (`RoundSlot`) and version (`RangeVersionSlot`). A member that has just joined has none: the
    // tag is 0, the indices are `.null`.
    var tag: UInt64
    var round: RoundIndex
    var rangeVersion: RangeVersionIndex
    var appIndex: UInt16
    var audience: AudienceDigest
    var outcome: MemberOutcome
    var environment: APNsEnvironment
    var kind: StoreSubjectKind
    var httpStatus: UInt16
    /// The number of requests to APNs, including the refused one. Requests of a previous owner of the partition are
    /// not counted.
    var attemptCount: UInt16
    /// Since when the token is dead, as APNs' response says. UNIX milliseconds; nil if the response has no such time.
    @CompactOptional var invalidAtWallMilliseconds: Int64?
    /// When the push was sent (UNIX milliseconds; nil if it was not sent completely), and when APNs responded.
    @CompactOptional var sentAtWallMilliseconds: Int64?
    var responseAtWallMilliseconds: Int64
    var registeredAtWallMilliseconds: Int64
    /// How many records and calls about the member are not acknowledged yet. First these are the records for Kafka (the
    /// member's result, the invalidation of its token), later the calls to the audience store and the activity store.
    var unacknowledgedCount: UInt8 = 0
    /// Whether the token is dead, and the calls about this are not queued yet: Kafka must first have the records.
    var needsDeadTokenCalls: Bool
    private(set) var identifierByteCount = 0
    private(set) var tokenByteCount = 0
    private(set) var reasonByteCount = 0
    /// Copies of the member's id, the digits of its token, and Apple's reason: the originals may be gone before the
    /// records about the member are written. The id begins at byte 0, the token behind the room for the longest id, and
    /// the reason behind the room for the longest token.
    private var textBuffer = InlineArray<640, UInt8>(repeating: 0)

    init(
        tag: UInt64,
        round: RoundIndex,
        rangeVersion: RangeVersionIndex,
        appIndex: UInt16,
        audience: AudienceDigest,
        outcome: MemberOutcome,
        environment: APNsEnvironment,
        kind: StoreSubjectKind,
        httpStatus: UInt16,
        attemptCount: UInt16,
        invalidAtWallMilliseconds: Int64?,
        sentAtWallMilliseconds: Int64?,
        responseAtWallMilliseconds: Int64,
        registeredAtWallMilliseconds: Int64
    ) {
        self.tag = tag
        self.round = round
        self.rangeVersion = rangeVersion
        self.appIndex = appIndex
        self.audience = audience
        self.outcome = outcome
        self.environment = environment
        self.kind = kind
        self.httpStatus = httpStatus
        self.attemptCount = attemptCount
        self.responseAtWallMilliseconds = responseAtWallMilliseconds
        self.registeredAtWallMilliseconds = registeredAtWallMilliseconds
        needsDeadTokenCalls = outcome == .unregistered
        self.invalidAtWallMilliseconds = invalidAtWallMilliseconds
        self.sentAtWallMilliseconds = sentAtWallMilliseconds
    }

    private static let tokenByteOffset = Limits.identifierBytesMax
    private static let reasonByteOffset = tokenByteOffset + Limits.tokenDigitsMax

    /// Copies the member's id, the digits of its token, and Apple's reason into this slot. The closures `identifier`
    /// and `token` write to the bytes that they get, and return the number of bytes written.
    mutating func keepCopies(
        identifier: (UnsafeMutableRawBufferPointer) -> Int,
        token: (UnsafeMutableRawBufferPointer) -> Int,
        reason: UnsafeRawBufferPointer
    ) {
        let reasonPrefix = UnsafeRawBufferPointer(rebasing: reason.prefix(Self.reasonBytesMax))
        let counts = withUnsafeMutableBytes(of: &textBuffer) { bytes in
            precondition(bytes.count >= Self.reasonByteOffset + Self.reasonBytesMax, "there is no room for the texts")
            UnsafeMutableRawBufferPointer(rebasing: bytes[Self.reasonByteOffset...]).copyMemory(from: reasonPrefix)
            return (
                identifier(UnsafeMutableRawBufferPointer(rebasing: bytes[..<Self.tokenByteOffset])),
                token(UnsafeMutableRawBufferPointer(rebasing: bytes[Self.tokenByteOffset..<Self.reasonByteOffset]))
            )
        }
        (identifierByteCount, tokenByteCount) = counts
        reasonByteCount = reasonPrefix.count
    }

    /// Passes the member's id, the digits of its token, and Apple's reason to `body`.
    func withIdentifierTokenAndReason<Result>(
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeBytes(of: textBuffer) { bytes in
            body(
                UnsafeRawBufferPointer(rebasing: bytes[..<identifierByteCount]),
                UnsafeRawBufferPointer(rebasing: bytes[Self.tokenByteOffset..<Self.tokenByteOffset + tokenByteCount]),
                UnsafeRawBufferPointer(rebasing: bytes[Self.reasonByteOffset..<Self.reasonByteOffset + reasonByteCount])
            )
        }
    }
}
