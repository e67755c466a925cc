import LiveActivity
import Numbers

/// A member that is sent to again: APNs could not take its push, or its pool was away when its turn came. A copy, since its page goes.
struct ParkedMember: BitwiseCopyable {
    var round: UInt32
    var next: UInt32
    var previous: UInt32 = .max
    var position: UInt64
    /// Where its outcome is noted as long as its page is not counted.
    var page: UInt32
    var member: UInt16
    var environment: DeviceEnvironment
    var kind: StoreSubjectKind
    var frequentUpdates: Bool
    var attempts: UInt8
    /// A push of it is on its way, or its result is being recorded.
    var isUnderWay = false
    /// APNs limits its token.
    var isLimited = false
    /// The version of the push that is on its way; `.max`: there is none.
    var version: UInt32 = .max
    /// When it is sent again; monotonic.
    var dueMilliseconds: Int64
    /// When it was read, monotonic.
    var readMilliseconds: Int64
    /// When its token was registered.
    var atMilliseconds: Int64
    private var identifierCount: UInt16 = 0
    private var tokenCount: UInt8 = 0
    private var identifierRoom = InlineArray<256, UInt8>(repeating: 0)
    private var tokenRoom = InlineArray<128, UInt8>(repeating: 0)

    init(
        _ content: PageMember,
        round: UInt32,
        next: UInt32,
        position: UInt64,
        page: UInt32,
        member: UInt16,
        attempts: UInt8,
        readMilliseconds: Int64,
        dueMilliseconds: Int64
    ) {
        self.round = round
        self.next = next
        self.position = position
        self.page = page
        self.member = member
        self.attempts = attempts
        self.dueMilliseconds = dueMilliseconds
        self.readMilliseconds = readMilliseconds
        environment = content.environment
        kind = content.kind
        frequentUpdates = content.frequentUpdates
        atMilliseconds = content.atMilliseconds
        copyTexts(of: content)
    }

    private mutating func copyTexts(of content: PageMember) {
        identifierCount = UInt16(withUnsafeMutableBytes(of: &identifierRoom) { content.writeIdentifier(to: $0) })
        let token = content.token
        tokenCount = UInt8(min(token.count, 128))
        withUnsafeMutableBytes(of: &tokenRoom) {
            $0.copyMemory(from: UnsafeRawBufferPointer(rebasing: token.prefix(128)))
        }
    }

    /// It was read again: it may have another token.
    mutating func update(from content: PageMember, readMilliseconds: Int64) {
        self.readMilliseconds = readMilliseconds
        environment = content.environment
        frequentUpdates = content.frequentUpdates
        atMilliseconds = content.atMilliseconds
        copyTexts(of: content)
    }

    /// Whether this is the same member, as its page has it now.
    func isNamed(by content: PageMember) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: Limits.identifierBytes, alignment: 1) { room in
            let count = content.writeIdentifier(to: room)
            return withIdentifier { isEqual($0, UnsafeRawBufferPointer(rebasing: room[..<count])) }
        }
    }

    /// - Returns: the count of the token's digits.
    func writeToken(to destination: UnsafeMutableRawBufferPointer) -> Int {
        withUnsafeBytes(of: tokenRoom) {
            Hexadecimal.write(UnsafeRawBufferPointer(rebasing: $0[..<Int(tokenCount)]), to: destination)
        }
    }

    func withIdentifier<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        withUnsafeBytes(of: identifierRoom) { body(UnsafeRawBufferPointer(rebasing: $0[..<Int(identifierCount)])) }
    }
}
