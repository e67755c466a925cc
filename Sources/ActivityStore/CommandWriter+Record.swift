import LiveActivity
import Redis

/// Writes arguments of the scripts.
extension CommandWriter {
    mutating func argument(_ bucket: Policy.Bucket) {
        argument(count: StoredBucket.bytes) { $0.bytes(StoredBucket.bytes) { StoredBucket.write(bucket, to: $0) } }
    }

    /// Writes a version in digits, as a device's hash stores it.
    mutating func textArgument(_ version: Version) {
        argument(count: StoredVersion.textBytes) { $0.versionText(version) }
    }

    /// Writes a version as an activity's record stores it.
    mutating func argument(_ version: Version) {
        argument(count: StoredVersion.bytes) { $0.storedVersion(version) }
    }

    /// Writes a claim, which the scripts only compare.
    mutating func argument(claim: UInt64) {
        argument(count: 8) { $0.number(claim, bytes: 8) }
    }

    /// Writes a time in a fixed number of digits, so that the scripts can compare stored times as text.
    mutating func argument(milliseconds: Int64) {
        argument(count: StoredTime.digits) {
            $0.bytes(StoredTime.digits) { StoredTime.write(milliseconds, to: $0) }
        }
    }

    /// Writes a time as an activity's record stores it.
    mutating func argument(recordMilliseconds milliseconds: Int64) {
        argument(count: StoredRecord.millisecondsBytes) {
            $0.number(StoredTime.clamped(milliseconds), bytes: StoredRecord.millisecondsBytes)
        }
    }

    /// Writes the suffix of a device's field names: a colon and the attributes type.
    mutating func argument(attributesType: UnsafeRawBufferPointer) {
        argument(count: attributesType.count + 1) {
            $0.byte(UInt8(ascii: ":"))
            $0.verbatim(attributesType)
        }
    }

    /// Writes a registration as a device's fields `t` and `u` store it: two arguments.
    mutating func deviceArguments(_ registration: TokenRegistration<UnsafeRawBufferPointer>) {
        deviceArguments(
            registration.token,
            registration.environment,
            registeredAt: registration.registeredAtMilliseconds
        )
    }

    /// Writes a retirement as three arguments: the token as a device's fields `t` and `u` store it, but
    /// without a registration time, and the time before which it must have been registered.
    mutating func deviceArguments(_ retirement: TokenRetirement<UnsafeRawBufferPointer>) {
        deviceArguments(retirement.token, retirement.environment, registeredAt: nil)
        if let before = retirement.invalidAtMilliseconds { argument(milliseconds: before) } else { emptyArgument() }
    }

    /// Writes the outcome of a start that waited for a device's token.
    mutating func argument(_ settlement: Settlement, _ version: Version) {
        argument(count: 1 + StoredVersion.textBytes) {
            $0.byte(settlement.letter)
            $0.versionText(version)
        }
    }

    static let refundArgumentBytes = 1 + StoredBucket.bytes + StoredTime.digits

    /// Writes the refund of a draw.
    mutating func refundArgument(_ bucket: Policy.Bucket, draw: Int64) {
        argument(count: Self.refundArgumentBytes) {
            $0.byte(UInt8(ascii: "g"))
            $0.bytes(StoredBucket.bytes) { StoredBucket.write(bucket, to: $0) }
            $0.bytes(StoredTime.digits) { StoredTime.write(draw, to: $0) }
        }
    }

    // MARK: - Parts of an argument

    /// Writes the part that every call of a batch begins with; see ``CallBatch``.
    mutating func callHead(_ bits: UInt8, paceNumber: UInt8, _ version: Version, _ digest: UInt64) {
        storedVersion(version)
        byte(paceNumber)
        byte(bits)
        number(UInt64(clamping: version.timestamp), bytes: StoredRecord.secondsBytes)
        number(StoredDigest.value(of: digest), bytes: StoredDigest.bytes)
    }

    /// Writes the version of a call's alert.
    mutating func version(_ version: Version) { storedVersion(version) }

    /// Writes the token of a batch's call.
    mutating func token(_ token: UnsafeRawBufferPointer, _ environment: DeviceEnvironment, milliseconds: UInt64) {
        Self.withForm(token, environment) { form, token in
            number(UInt64(token.count), bytes: 2)
            number(milliseconds, bytes: StoredRecord.millisecondsBytes)
            byte(form.rawValue)
            verbatim(token)
        }
    }

    /// Writes a registration of a batch; see ``RegistrationBatch``.
    mutating func registration(
        _ bits: UInt8,
        _ registration: TokenRegistration<UnsafeRawBufferPointer>,
        audiences: UnsafeRawBufferPointer?,
        shows: Version?
    ) {
        let count = audiences.map { AudienceList($0).count } ?? 0
        Self.withForm(registration.token, registration.environment) { form, token in
            byte(bits)
            byte(form.rawValue)
            number(UInt64(token.count), bytes: 2)
            byte(UInt8(count))
            number(
                StoredTime.clamped(registration.registeredAtMilliseconds),
                bytes: StoredRecord.millisecondsBytes
            )
            verbatim(token)
        }
        if let audiences, count > 0 {
            byte(UInt8(count))
            byte(0)
            verbatim(audiences)
        }
        if let shows { versionText(shows) }
    }

    /// Writes a confirmation of a batch; see ``RegistrationBatch``.
    mutating func confirmation(_ bits: UInt8, milliseconds: Int64) {
        byte(bits)
        number(0, bytes: 4)
        number(StoredTime.clamped(milliseconds), bytes: StoredRecord.millisecondsBytes)
    }

    private mutating func storedVersion(_ version: Version) {
        bytes(StoredVersion.bytes) { StoredVersion.write(version, to: $0) }
    }

    private mutating func versionText(_ version: Version) {
        bytes(StoredVersion.textBytes) { StoredVersion.writeText(version, to: $0) }
    }

    private mutating func number(_ value: UInt64, bytes count: Int) {
        bytes(count) { LittleEndian.write(value, bytes: count, to: $0) }
    }

    private mutating func deviceArguments(
        _ token: UnsafeRawBufferPointer,
        _ environment: DeviceEnvironment,
        registeredAt: Int64?
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax + StoredTime.digits, alignment: 1) { memory in
            // Memory of a positive size has an address.
            let start = memory.baseAddress.unsafelyUnwrapped
            let timeBytes = registeredAt == nil ? 0 : StoredTime.digits
            if let registeredAt { StoredTime.write(registeredAt, to: start) }
            let length = timeBytes + TokenText.encode(token, environment, to: start + timeBytes)
            let headCount = min(length, timeBytes + TokenText.headBytesMax)
            argument(UnsafeRawBufferPointer(rebasing: memory[..<headCount]))
            argument(UnsafeRawBufferPointer(rebasing: memory[headCount..<length]))
        }
    }

    private static func withForm(
        _ token: UnsafeRawBufferPointer,
        _ environment: DeviceEnvironment,
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
}

extension Settlement {
    /// The letter that the script `settle` reads.
    fileprivate var letter: UInt8 {
        switch self {
        case .accepted: UInt8(ascii: "a")
        case .notShown: UInt8(ascii: "f")
        case .unknown: UInt8(ascii: "u")
        }
    }
}
