import LiveActivity
import Redis

/// Writes arguments of the scripts.
extension RedisCommandWriter {
    /// The maximum length of an operation's name, in bytes. To the script `admit`, a longer first argument is a batch.
    static let operationBytesMax = CallBatch.callBytesMin - 1

    /// Writes the name of an operation of a script.
    mutating func writeArgument(operation name: StaticString) {
        precondition(name.utf8CodeUnitCount <= Self.operationBytesMax)
        writeArgument(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    mutating func writeArgument(_ bucket: Policy.Bucket) {
        writeArgument(count: StoredBucket.byteCount) {
            $0.writeBytes(StoredBucket.byteCount) { StoredBucket.write(bucket, to: $0) }
        }
    }

    /// Writes a version as thirty digits, the form in which Redis stores the version of a held or kept command.
    mutating func writeTextArgument(_ version: Version) {
        writeArgument(count: StoredVersion.textByteCount) { $0.writeVersionText(version) }
    }

    /// Writes a version in the binary form that an activity's value has.
    mutating func writeArgument(_ version: Version) {
        writeArgument(count: StoredVersion.byteCount) { $0.writeStoredVersion(version) }
    }

    /// Writes a claim as eight raw bytes: the scripts only test whether two claims are equal.
    mutating func writeArgument(claim: UInt64) {
        writeArgument(count: 8) { $0.writeNumber(claim, bytes: 8) }
    }

    /// Writes a time or a duration in a fixed number of digits, so that the scripts can compare times as text.
    mutating func writeArgument(milliseconds: Int64) {
        writeArgument(count: StoredTime.digitCount) {
            $0.writeBytes(StoredTime.digitCount) { StoredTime.write(milliseconds, to: $0) }
        }
    }

    /// Writes a time in the binary form that an activity's value has.
    mutating func writeArgument(binaryMilliseconds milliseconds: Int64) {
        writeArgument(count: StoredActivity.millisecondsBytes) {
            $0.writeNumber(StoredTime.clampedMilliseconds(milliseconds), bytes: StoredActivity.millisecondsBytes)
        }
    }

    /// Writes the suffix of a device's field names: a colon and the attributes type.
    mutating func writeArgument(attributesType: UnsafeRawBufferPointer) {
        writeArgument(count: attributesType.count + 1) {
            $0.writeByte(UInt8(ascii: ":"))
            $0.writeVerbatim(attributesType)
        }
    }

    /// Writes a registration as two arguments: the new contents of the fields `t` and `u` of a device's hash.
    mutating func writeDeviceTokenArguments(_ registration: TokenRegistration<UnsafeRawBufferPointer>) {
        writeDeviceTokenArguments(
            registration.token,
            registration.environment,
            registeredAtMilliseconds: registration.registeredAtMilliseconds
        )
    }

    /// Writes a retirement as three arguments. The first two are the token, as a device's fields `t` and `u` store it,
    /// but without the registration time. The third is the time before which the token must have been registered;
    /// empty: the token is retired in any case.
    mutating func writeRetirementArguments(_ retirement: TokenRetirement<UnsafeRawBufferPointer>) {
        writeDeviceTokenArguments(retirement.token, retirement.environment, registeredAtMilliseconds: nil)
        if let invalidAtMilliseconds = retirement.invalidAtMilliseconds {
            writeArgument(milliseconds: invalidAtMilliseconds)
        } else {
            writeEmptyArgument()
        }
    }

    /// Writes how a device's start ended: the outcome's letter and the start's version.
    mutating func writeArgument(_ settlement: Settlement, _ version: Version) {
        writeArgument(count: 1 + StoredVersion.textByteCount) {
            $0.writeByte(settlement.letter)
            $0.writeVersionText(version)
        }
    }

    static let refundArgumentBytes = 1 + StoredBucket.byteCount + StoredTime.digitCount

    /// Writes a refund: the letter `g`, the numbers of the bucket, and the draw to refund.
    mutating func writeRefundArgument(_ bucket: Policy.Bucket, drawIdentifier: Int64) {
        writeArgument(count: Self.refundArgumentBytes) {
            $0.writeByte(UInt8(ascii: "g"))
            $0.writeBytes(StoredBucket.byteCount) { StoredBucket.write(bucket, to: $0) }
            $0.writeBytes(StoredTime.digitCount) { StoredTime.write(drawIdentifier, to: $0) }
        }
    }

    // MARK: - Parts of an argument

    /// Writes bytes 1 to 26 of a call of a ``CallBatch``.
    mutating func writeCallHead(_ bits: UInt8, paceNumber: UInt8, _ version: Version, _ digest: UInt64) {
        writeStoredVersion(version)
        writeByte(paceNumber)
        writeByte(bits)
        writeNumber(UInt64(clamping: version.timestamp), bytes: StoredActivity.secondsBytes)
        writeNumber(StoredDigest.value(of: digest), bytes: StoredDigest.byteCount)
    }

    /// Writes the version of a command with an alert at the end of a call of a ``CallBatch``.
    mutating func writeAlertVersion(_ version: Version) { writeStoredVersion(version) }

    /// Writes a token and its time into a call of a ``CallBatch``.
    mutating func writeToken(_ token: UnsafeRawBufferPointer, _ environment: APNsEnvironment, milliseconds: UInt64) {
        Self.withEncodedToken(token, environment) { form, token in
            writeNumber(UInt64(token.count), bytes: 2)
            writeNumber(milliseconds, bytes: StoredActivity.millisecondsBytes)
            writeByte(form.rawValue)
            writeVerbatim(token)
        }
    }

    /// Writes a registration as a call of a ``RegistrationBatch``.
    mutating func writeRegistration(
        _ bits: UInt8,
        _ registration: TokenRegistration<UnsafeRawBufferPointer>,
        audiences: UnsafeRawBufferPointer?,
        shownVersion: Version?
    ) {
        let count = audiences.map { AudienceList($0).count } ?? 0
        Self.withEncodedToken(registration.token, registration.environment) { form, token in
            writeByte(bits)
            writeByte(form.rawValue)
            writeNumber(UInt64(token.count), bytes: 2)
            writeByte(UInt8(count))
            writeNumber(
                StoredTime.clampedMilliseconds(registration.registeredAtMilliseconds),
                bytes: StoredActivity.millisecondsBytes
            )
            writeVerbatim(token)
        }
        if let audiences, count > 0 {
            writeByte(UInt8(count))
            writeByte(0)
            writeVerbatim(audiences)
        }
        if let shownVersion { writeVersionText(shownVersion) }
    }

    /// Writes a confirmation of an activity's departures as a call of a ``RegistrationBatch``.
    /// - Parameter milliseconds: the time in the reply that named the audiences.
    mutating func writeDepartureConfirmation(_ bits: UInt8, milliseconds: Int64) {
        writeByte(bits)
        writeNumber(0, bytes: 4)
        writeNumber(StoredTime.clampedMilliseconds(milliseconds), bytes: StoredActivity.millisecondsBytes)
    }

    private mutating func writeStoredVersion(_ version: Version) {
        writeBytes(StoredVersion.byteCount) { StoredVersion.write(version, to: $0) }
    }

    private mutating func writeVersionText(_ version: Version) {
        writeBytes(StoredVersion.textByteCount) { StoredVersion.writeText(version, to: $0) }
    }

    private mutating func writeNumber(_ value: UInt64, bytes count: Int) {
        writeBytes(count) { LittleEndian.write(value, bytes: count, to: $0) }
    }

    private mutating func writeDeviceTokenArguments(
        _ token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        registeredAtMilliseconds: Int64?
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax + StoredTime.digitCount, alignment: 1) { memory in
            // `memory` is not empty, so its address is never nil.
            let start = memory.baseAddress.unsafelyUnwrapped
            let timeBytes = registeredAtMilliseconds == nil ? 0 : StoredTime.digitCount
            if let registeredAtMilliseconds { StoredTime.write(registeredAtMilliseconds, to: start) }
            let length = timeBytes + TokenText.encode(token, environment, to: start + timeBytes)
            let headCount = min(length, timeBytes + TokenText.firstFieldBytesMax)
            writeArgument(UnsafeRawBufferPointer(rebasing: memory[..<headCount]))
            writeArgument(UnsafeRawBufferPointer(rebasing: memory[headCount..<length]))
        }
    }

    private static func withEncodedToken(
        _ token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        _ body: (TokenForm, UnsafeRawBufferPointer) -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: TokenText.bytesMax, alignment: 1) { memory in
            // `memory` is not empty, so its address is never nil.
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
    /// The letter by which the script `settle` knows the outcome: the first byte of the script's first argument.
    fileprivate var letter: UInt8 {
        switch self {
        case .accepted: UInt8(ascii: "a")
        case .notShown: UInt8(ascii: "f")
        case .unknown: UInt8(ascii: "u")
        }
    }
}
