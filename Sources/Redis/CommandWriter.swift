/// Writes one RESP command into memory that was reserved for it. The room is computed beforehand, and checked on commit.
struct CommandWriter {
    /// Room for an argument's length line and its end.
    static let argumentOverheadBytes = 16

    private let base: UnsafeMutableRawPointer
    private(set) var count = 0

    init(_ room: UnsafeMutableRawBufferPointer, argumentCount: Int) {
        precondition(room.count >= Self.argumentOverheadBytes)
        // Reserved memory of a positive size has an address.
        base = room.baseAddress.unsafelyUnwrapped
        lengthLine(UInt8(ascii: "*"), argumentCount)
    }

    /// Writes arguments only, behind those that are there.
    init(_ memory: UnsafeMutableRawBufferPointer, continuingAt count: Int) {
        precondition(memory.count - count >= Self.argumentOverheadBytes)
        base = memory.baseAddress.unsafelyUnwrapped
        self.count = count
    }

    mutating func verbatim(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(start: base + count, count: bytes.count).copyMemory(from: bytes)
        count += bytes.count
    }

    mutating func argument(_ bytes: UnsafeRawBufferPointer) {
        lengthLine(UInt8(ascii: "$"), bytes.count)
        verbatim(bytes)
        lineEnd()
    }

    mutating func argument(number: Int) {
        lengthLine(UInt8(ascii: "$"), Decimal.digits(of: UInt64(number)))
        decimal(number)
        lineEnd()
    }

    mutating func argument(letter: UInt8) {
        lengthLine(UInt8(ascii: "$"), 1)
        byte(letter)
        lineEnd()
    }

    mutating func emptyArgument() {
        lengthLine(UInt8(ascii: "$"), 0)
        lineEnd()
    }

    mutating func argument(_ bucket: BucketNumbers) {
        lengthLine(UInt8(ascii: "$"), BucketNumbers.bytes)
        bucket.write(to: base + count)
        count += BucketNumbers.bytes
        lineEnd()
    }

    mutating func argument(_ version: ScriptVersion) {
        lengthLine(UInt8(ascii: "$"), ScriptVersion.textBytes)
        version.write(to: base + count)
        count += ScriptVersion.textBytes
        lineEnd()
    }

    /// A claim, which is only compared.
    mutating func argument(eightBytes number: UInt64) {
        lengthLine(UInt8(ascii: "$"), MemoryLayout<UInt64>.size)
        eightBytes(number)
        lineEnd()
    }

    /// A time in the digits that all stored times have, so that they compare as text.
    mutating func argument(milliseconds: Int64) {
        lengthLine(UInt8(ascii: "$"), StoredTime.digits)
        StoredTime.write(milliseconds, to: base + count)
        count += StoredTime.digits
        lineEnd()
    }

    mutating func argument(_ key: HashKey) {
        key.withStoredIdentifier { sign, identifier in
            lengthLine(UInt8(ascii: "$"), key.app.count + identifier.count + 3)
            byte(UInt8(ascii: "{"))
            verbatim(key.app)
            byte(sign)
            verbatim(identifier)
            byte(UInt8(ascii: "}"))
            lineEnd()
        }
    }

    /// The suffix of a scope's fields.
    mutating func argument(_ scope: RegistrationScope) {
        switch scope {
        case .activity:
            emptyArgument()
        case .attributesType(let type), .start(let type, _):
            lengthLine(UInt8(ascii: "$"), type.count + 1)
            byte(UInt8(ascii: ":"))
            verbatim(type)
            lineEnd()
        case .allAttributesTypes:
            argument(letter: UInt8(ascii: "*"))
        }
    }

    /// A registration as it stands in a device's fields `t` and `u`: two arguments.
    mutating func arguments(_ registration: TokenRegistration) {
        tokenArguments(
            registration.token,
            registration.environment,
            registeredAt: registration.registeredAtMilliseconds
        )
    }

    /// A token as it stands in a device's fields `t` and `u` behind the registration's time, and the time before which it must have
    /// been registered: three arguments.
    mutating func arguments(_ retirement: TokenRetirement) {
        tokenArguments(retirement.token, retirement.environment, registeredAt: nil)
        if let before = retirement.invalidAtMilliseconds { argument(milliseconds: before) } else { emptyArgument() }
    }

    /// A registration for an activity's record: its time, the token's form and the token, one argument.
    mutating func recordArgument(_ registration: TokenRegistration) {
        Self.withForm(registration.token, registration.environment) { form, token in
            lengthLine(UInt8(ascii: "$"), StoredRecord.millisecondsBytes + 1 + token.count)
            milliseconds(registration.registeredAtMilliseconds)
            byte(form.rawValue)
            verbatim(token)
            lineEnd()
        }
    }

    /// A version as an activity's record has it.
    mutating func recordArgument(_ version: ScriptVersion) {
        lengthLine(UInt8(ascii: "$"), StoredVersion.bytes)
        recordVersion(version)
        lineEnd()
    }

    /// How a start ended that waited for a device's token.
    mutating func outcomeArgument(_ outcome: SettledOutcome, _ version: ScriptVersion) {
        lengthLine(UInt8(ascii: "$"), 1 + ScriptVersion.textBytes)
        byte(outcome.rawValue)
        version.write(to: base + count)
        count += ScriptVersion.textBytes
        lineEnd()
    }

    static let refundArgumentBytes = 1 + BucketNumbers.bytes + StoredTime.digits

    /// A draw that goes back into its bucket.
    mutating func refundArgument(_ bucket: BucketNumbers, draw: Int64) {
        lengthLine(UInt8(ascii: "$"), Self.refundArgumentBytes)
        byte(UInt8(ascii: "g"))
        bucket.write(to: base + count)
        StoredTime.write(draw, to: base + count + BucketNumbers.bytes)
        count += BucketNumbers.bytes + StoredTime.digits
        lineEnd()
    }

    private mutating func tokenArguments(
        _ token: UnsafeRawBufferPointer,
        _ environment: TokenEnvironment,
        registeredAt: Int64?
    ) {
        Self.withStored(token, environment, registeredAt: registeredAt) { stored in
            let timeBytes = registeredAt == nil ? 0 : StoredTime.digits
            let headCount = min(stored.count, timeBytes + TokenText.headBytesMax)
            argument(UnsafeRawBufferPointer(rebasing: stored[..<headCount]))
            argument(UnsafeRawBufferPointer(rebasing: stored[headCount...]))
        }
    }

    /// A token as a device's hash has it, behind the time of its registration if there is one.
    private static func withStored(
        _ token: UnsafeRawBufferPointer,
        _ environment: TokenEnvironment,
        registeredAt: Int64?,
        _ body: (UnsafeRawBufferPointer) -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax + StoredTime.digits, alignment: 1) { memory in
            // Memory of a positive size has an address.
            let start = memory.baseAddress.unsafelyUnwrapped
            var length = 0
            if let registeredAt {
                StoredTime.write(registeredAt, to: start)
                length = StoredTime.digits
            }
            length += TokenText.encode(token, environment, to: start + length)
            body(UnsafeRawBufferPointer(rebasing: memory[..<length]))
        }
    }

    private static func withForm(
        _ token: UnsafeRawBufferPointer,
        _ environment: TokenEnvironment,
        _ body: (TokenForm, UnsafeRawBufferPointer) -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax, alignment: 1) { memory in
            // Memory of a positive size has an address.
            let (form, length) = TokenText.encodeBytes(
                of: token,
                environment,
                to: memory.baseAddress.unsafelyUnwrapped
            )
            body(form, UnsafeRawBufferPointer(rebasing: memory[..<length]))
        }
    }

    /// The most that `admission` or `settlement` writes.
    static let admissionBytesMax =
        StoredVersion.bytes + StoredRecord.secondsBytes + 2 + StoredDigest.bytes + 2 + StoredRecord.millisecondsBytes
        + TokenText.bytesMax

    /// An update or an end, as a part of an argument; for its parts see ``AdmissionBatch``.
    mutating func admission(
        _ event: CommandEvent,
        _ request: PushRequest,
        isAgain: Bool,
        paceNumber: UInt8,
        _ version: ScriptVersion,
        _ digest: UInt64,
        _ registration: TokenRegistration?
    ) {
        recordVersion(version)
        byte(paceNumber)
        byte(request.bits + (event == .end ? 8 : 0) + (registration == nil ? 0 : 16) + (isAgain ? 64 : 0))
        number(version.timestampSeconds, bytes: StoredRecord.secondsBytes)
        self.digest(digest)
        guard let registration else { return }
        tokenPart(
            registration.token,
            registration.environment,
            StoredTime.stored(registration.registeredAtMilliseconds)
        )
    }

    /// A settlement, likewise.
    mutating func settlement(
        _ number: SettlementNumber,
        isAgain: Bool,
        paceNumber: UInt8,
        _ version: ScriptVersion?,
        _ digest: UInt64,
        _ retirement: TokenRetirement?
    ) {
        if let version {
            recordVersion(version)
        } else {
            self.number(0, bytes: 8)
            self.number(0, bytes: StoredVersion.bytes - 8)
        }
        byte(paceNumber)
        byte(number.rawValue + 32 + (retirement == nil ? 0 : 16) + (isAgain ? 64 : 0))
        self.number(version?.timestampSeconds ?? 0, bytes: StoredRecord.secondsBytes)
        self.digest(digest)
        guard let retirement else { return }
        // Whenever it was registered: before a time that no registration has.
        let before = retirement.invalidAtMilliseconds.map { StoredTime.stored($0) } ?? .max
        tokenPart(retirement.token, retirement.environment, before)
    }

    private mutating func tokenPart(_ token: UnsafeRawBufferPointer, _ environment: TokenEnvironment, _ time: UInt64) {
        Self.withForm(token, environment) { form, token in
            number(UInt64(token.count), bytes: 2)
            number(time, bytes: StoredRecord.millisecondsBytes)
            byte(form.rawValue)
            verbatim(token)
        }
    }

    private mutating func recordVersion(_ version: ScriptVersion) {
        StoredVersion.write(version, to: base + count)
        count += StoredVersion.bytes
    }

    private mutating func digest(_ digest: UInt64) {
        number(StoredDigest.stored(digest), bytes: StoredDigest.bytes)
    }

    private mutating func milliseconds(_ milliseconds: Int64) {
        number(StoredTime.stored(milliseconds), bytes: StoredRecord.millisecondsBytes)
    }

    private mutating func number(_ value: UInt64, bytes: Int) {
        LittleEndian.write(value, bytes: bytes, to: base + count)
        count += bytes
    }

    private mutating func lengthLine(_ type: UInt8, _ length: Int) {
        byte(type)
        decimal(length)
        lineEnd()
    }

    private mutating func decimal(_ number: Int) {
        let digits = Decimal.digits(of: UInt64(number))
        Decimal.write(UInt64(number), digits: digits, to: base + count)
        count += digits
    }

    private mutating func eightBytes(_ number: UInt64) {
        base.storeBytes(of: number.littleEndian, toByteOffset: count, as: UInt64.self)
        count += MemoryLayout<UInt64>.size
    }

    private mutating func byte(_ byte: UInt8) {
        base.storeBytes(of: byte, toByteOffset: count, as: UInt8.self)
        count += 1
    }

    private mutating func lineEnd() {
        byte(0x0D)
        byte(0x0A)
    }
}
