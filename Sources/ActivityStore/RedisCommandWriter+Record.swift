import LiveActivity
import Redis

/// Writes arguments of the scripts.
extension RedisCommandWriter {
    mutating func argument(_ bucket: Policy.Bucket) {
        argument(count: StoredBucket.bytes) { $0.bytes(StoredBucket.bytes) { StoredBucket.write(bucket, to: $0) } }
    }

    /// Writes a version as thirty digits, the form in which Redis stores the version of a held or kept command.
    mutating func textArgument(_ version: Version) {
        argument(count: StoredVersion.textBytes) { $0.versionText(version) }
    }

    /// Writes a version in the binary form that an activity's value has.
    mutating func argument(_ version: Version) {
        argument(count: StoredVersion.bytes) { $0.storedVersion(version) }
    }

    /// Writes a claim as eight raw bytes: the scripts only test whether two claims are equal.
    mutating func argument(claim: UInt64) {
        argument(count: 8) { $0.number(claim, bytes: 8) }
    }

    /// Writes a time or a duration in a fixed number of digits, so that the scripts can compare times as text.
    mutating func argument(milliseconds: Int64) {
        argument(count: StoredTime.digits) {
            $0.bytes(StoredTime.digits) { StoredTime.write(milliseconds, to: $0) }
        }
    }

    /// Writes a time in the binary form that an activity's value has.
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

    /// Writes a registration as two arguments: the new contents of the fields `t` and `u` of a device's hash.
    mutating func deviceArguments(_ registration: TokenRegistration<UnsafeRawBufferPointer>) {
        deviceArguments(
            registration.token,
            registration.environment,
            registeredAt: registration.registeredAtMilliseconds
        )
    }

    /// Writes a retirement as three arguments. The first two are the token as a device's fields `t` and `u`
    /// store it, but without the registration time. The third is the time before which the token must have
    /// been registered; empty: at any time.
    mutating func retirementArguments(_ retirement: TokenRetirement<UnsafeRawBufferPointer>) {
        deviceArguments(retirement.token, retirement.environment, registeredAt: nil)
        if let invalidAtMilliseconds = retirement.invalidAtMilliseconds {
            argument(milliseconds: invalidAtMilliseconds)
        } else {
            emptyArgument()
        }
    }

    /// Writes how a device's start ended: the outcome's letter and the start's version.
    mutating func argument(_ settlement: Settlement, _ version: Version) {
        argument(count: 1 + StoredVersion.textBytes) {
            $0.byte(settlement.letter)
            $0.versionText(version)
        }
    }

    static let refundArgumentBytes = 1 + StoredBucket.bytes + StoredTime.digits

    /// Writes a refund: the letter `g`, the numbers of the bucket, and the draw to refund.
    mutating func refundArgument(_ bucket: Policy.Bucket, draw: Int64) {
        argument(count: Self.refundArgumentBytes) {
            $0.byte(UInt8(ascii: "g"))
            $0.bytes(StoredBucket.bytes) { StoredBucket.write(bucket, to: $0) }
            $0.bytes(StoredTime.digits) { StoredTime.write(draw, to: $0) }
        }
    }

    // MARK: - Parts of an argument

    /// Writes bytes 1 to 26 of a call of a ``CallBatch``.
    mutating func callHead(_ bits: UInt8, paceNumber: UInt8, _ version: Version, _ digest: UInt64) {
        storedVersion(version)
        byte(paceNumber)
        byte(bits)
        number(UInt64(clamping: version.timestamp), bytes: StoredRecord.secondsBytes)
        number(StoredDigest.value(of: digest), bytes: StoredDigest.bytes)
    }

    /// Writes the version of a call's alert.
    mutating func version(_ version: Version) { storedVersion(version) }

    /// Writes a token and its time into a call of a ``CallBatch``.
    mutating func token(_ token: UnsafeRawBufferPointer, _ environment: APNsEnvironment, milliseconds: UInt64) {
        Self.withForm(token, environment) { form, token in
            number(UInt64(token.count), bytes: 2)
            number(milliseconds, bytes: StoredRecord.millisecondsBytes)
            byte(form.rawValue)
            verbatim(token)
        }
    }

    /// Writes a registration as a call of a ``RegistrationBatch``.
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

    /// Writes a confirmation of departures as a call of a ``RegistrationBatch``.
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
        _ environment: APNsEnvironment,
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
        _ environment: APNsEnvironment,
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
