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

    mutating func verbatim(_ bytes: UnsafeRawBufferPointer) {
        UnsafeMutableRawBufferPointer(start: base + count, count: bytes.count).copyMemory(from: bytes)
        count += bytes.count
    }

    mutating func argument(_ bytes: UnsafeRawBufferPointer) {
        lengthLine(UInt8(ascii: "$"), bytes.count)
        verbatim(bytes)
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

    mutating func argument(_ pace: PaceArguments, _ request: PushRequest?) {
        lengthLine(UInt8(ascii: "$"), PaceArguments.bytes)
        pace.write(request, to: base + count)
        count += PaceArguments.bytes
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

    /// A digest or a claim, which are only compared.
    mutating func argument(eightBytes number: UInt64) {
        lengthLine(UInt8(ascii: "$"), MemoryLayout<UInt64>.size)
        base.storeBytes(of: number.bigEndian, toByteOffset: count, as: UInt64.self)
        count += MemoryLayout<UInt64>.size
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
        lengthLine(UInt8(ascii: "$"), key.count)
        byte(UInt8(ascii: "{"))
        verbatim(key.app)
        byte(key.kind.rawValue)
        verbatim(key.identifier)
        byte(UInt8(ascii: "}"))
        lineEnd()
    }

    /// The suffix of a scope's fields.
    mutating func argument(_ scope: RegistrationScope) {
        switch scope {
        case .activity:
            emptyArgument()
        case .attributesType(let type):
            lengthLine(UInt8(ascii: "$"), type.count + 1)
            byte(UInt8(ascii: ":"))
            verbatim(type)
            lineEnd()
        case .allAttributesTypes:
            argument(letter: UInt8(ascii: "*"))
        }
    }

    /// A registration as it stands in the fields `t` and `u`: two arguments.
    mutating func arguments(_ registration: TokenRegistration) {
        tokenArguments(
            registration.token,
            registration.environment,
            registeredAt: registration.registeredAtMilliseconds
        )
    }

    /// A token as it stands in the fields `t` and `u` behind the registration's time, and the time before which it must have
    /// been registered: three arguments.
    mutating func arguments(_ retirement: TokenRetirement) {
        tokenArguments(retirement.token, retirement.environment, registeredAt: nil)
        if let before = retirement.invalidAtMilliseconds { argument(milliseconds: before) } else { emptyArgument() }
    }

    private mutating func tokenArguments(
        _ token: UnsafeRawBufferPointer,
        _ environment: TokenEnvironment,
        registeredAt: Int64?
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax + StoredTime.digits, alignment: 1) { stored in
            // Memory of a positive size has an address.
            let start = stored.baseAddress.unsafelyUnwrapped
            var length = 0
            if let registeredAt {
                StoredTime.write(registeredAt, to: start)
                length = StoredTime.digits
            }
            let tail = TokenText.encode(token, environment, to: start + length)
            let headCount = min(length + tail, length + TokenText.headBytesMax)
            length += tail
            argument(UnsafeRawBufferPointer(rebasing: stored[..<headCount]))
            argument(UnsafeRawBufferPointer(rebasing: stored[headCount..<length]))
        }
    }

    private mutating func lengthLine(_ type: UInt8, _ length: Int) {
        byte(type)
        let digits = Decimal.digits(of: UInt64(length))
        Decimal.write(UInt64(length), digits: digits, to: base + count)
        count += digits
        lineEnd()
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
