import LiveActivity
import Redis

/// Writes arguments of the scripts.
extension RedisCommandWriter {
    /// The maximum length of an operation's name, in bytes. The script `admit` takes a longer first argument for a
    /// batch.
    static let operationNameBytesMax = CommandCallBatch.callBytesMin - 1

    /// Writes the name of an operation as an argument.
    mutating func writeArgument(operation name: StaticString) {
        precondition(name.utf8CodeUnitCount <= Self.operationNameBytesMax)
        writeArgument(UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    static let startBudgetArgumentBytes = StoredBucket.byteCount + StoredBucket.longestFillByteCount

    /// Writes a device's budget of starts: its bucket (``StoredBucket``), and the longest time in which such a bucket
    /// fills under any of the configured policies.
    mutating func writeStartBudgetArgument(_ bucket: Policy.Bucket) {
        writeArgument(byteCount: Self.startBudgetArgumentBytes) {
            $0.writeBytes(StoredBucket.byteCount) { StoredBucket.write(bucket, to: $0) }
            $0.writeBytes(StoredBucket.longestFillByteCount) {
                StoredBucket.writeLongestFillSeconds(bucket.longestFillSeconds, to: $0)
            }
        }
    }

    /// Writes a version as thirty digits. In this form, Redis stores the version of a held command, and of a command
    /// that is kept for a restart.
    mutating func writeTextArgument(_ version: Version) {
        writeArgument(byteCount: StoredVersion.textByteCount) { $0.writeVersionText(version) }
    }

    /// Writes a version as thirteen bytes, as an activity's value stores it (``StoredVersion``).
    mutating func writeArgument(_ version: Version) {
        writeArgument(byteCount: StoredVersion.byteCount) { $0.writeStoredVersion(version) }
    }

    /// Writes a claim as eight raw bytes. The scripts only test whether two claims are equal.
    mutating func writeArgument(claim: UInt64) {
        writeArgument(byteCount: 8) { $0.writeNumber(claim, byteCount: 8) }
    }

    /// Writes a time or a duration in a fixed number of digits, so that the scripts can compare times as text.
    mutating func writeArgument(milliseconds: Int64) {
        writeArgument(byteCount: StoredTime.digitCount) {
            $0.writeBytes(StoredTime.digitCount) { StoredTime.write(milliseconds, to: $0) }
        }
    }

    /// Writes a time as a number of six bytes, as an activity's value stores it.
    mutating func writeArgument(binaryMilliseconds milliseconds: Int64) {
        writeArgument(byteCount: StoredActivity.millisecondsBytes) {
            $0.writeNumber(StoredTime.clampedMilliseconds(milliseconds), byteCount: StoredActivity.millisecondsBytes)
        }
    }

    /// Writes the suffix of a device's field names: a colon and the attributes type.
    mutating func writeArgument(attributesType: UnsafeRawBufferPointer) {
        writeArgument(byteCount: attributesType.count + 1) {
            $0.writeByte(UInt8(ascii: ":"))
            $0.writeVerbatim(attributesType)
        }
    }

    /// Writes a device's token as two arguments, for two fields of the device's hash: `t` has the time of the
    /// registration and the beginning of the token, and `u` has the rest of a long token.
    mutating func writeDeviceTokenArguments(_ registration: TokenRegistration<UnsafeRawBufferPointer>) {
        writeDeviceTokenArguments(
            registration.token,
            registration.environment,
            registeredAtMilliseconds: registration.registeredAtMilliseconds
        )
    }

    /// Writes a retirement as three arguments:
    /// - the first bytes of the token, as in the field `t` of a device's hash, but without the time;
    /// - the rest of the token, as in the field `u`;
    /// - a time: the token is retired only if it was registered before. If this argument is empty, it is retired in any
    ///   case.
    mutating func writeRetirementArguments(_ retirement: TokenRetirement<UnsafeRawBufferPointer>) {
        writeDeviceTokenArguments(retirement.token, retirement.environment, registeredAtMilliseconds: nil)
        if let invalidAtMilliseconds = retirement.invalidAtMilliseconds {
            writeArgument(milliseconds: invalidAtMilliseconds)
        } else {
            writeEmptyArgument()
        }
    }

    /// Writes how a device's start ended, as one argument: a letter for the outcome, then the start's version in
    /// digits.
    mutating func writeArgument(_ settlement: Settlement, _ version: Version) {
        writeArgument(byteCount: 1 + StoredVersion.textByteCount) {
            $0.writeByte(settlement.letter)
            $0.writeVersionText(version)
        }
    }

    static let refundArgumentBytes = 1 + StoredBucket.byteCount + StoredTime.digitCount

    /// Writes a refund as one argument: the letter `g`, the bucket (``StoredBucket``), and the number that names the
    /// draw to refund.
    mutating func writeRefundArgument(_ bucket: Policy.Bucket, drawIdentifier: Int64) {
        writeArgument(byteCount: Self.refundArgumentBytes) {
            $0.writeByte(UInt8(ascii: "g"))
            $0.writeBytes(StoredBucket.byteCount) { StoredBucket.write(bucket, to: $0) }
            $0.writeBytes(StoredTime.digitCount) { StoredTime.write(drawIdentifier, to: $0) }
        }
    }

    // MARK: - Parts of an argument

    /// Writes bytes 1 to 26 of a call of a ``CommandCallBatch``.
    ///
    /// - Parameters:
    ///   - paceBits: byte 14, the number of the pace's argument and ``PaceByteFlags``.
    ///   - requestBits: byte 15, ``CallRequestBits``; in a settlement also the ``SettlementCode``.
    mutating func writeCallHead(paceBits: UInt8, requestBits: UInt8, _ version: Version, _ digest: UInt64) {
        writeStoredVersion(version)
        writeByte(paceBits)
        writeByte(requestBits)
        writeNumber(UInt64(clamping: version.timestamp), byteCount: StoredActivity.secondsBytes)
        writeNumber(StoredDigest.value(of: digest), byteCount: StoredDigest.byteCount)
    }

    /// Writes the last part of a call of a ``CommandCallBatch``: the version of the command whose alert this call's
    /// command carries. In a settlement: the version of the command whose alert APNs has accepted.
    mutating func writeAlertVersion(_ version: Version) { writeStoredVersion(version) }

    /// Writes the token's part of a call of a ``CommandCallBatch``, from byte 27 on.
    ///
    /// - Parameter milliseconds: in an update or end, when the token was registered; in a settlement, the time before
    ///   which a token must have been registered to be retired.
    mutating func writeToken(_ token: UnsafeRawBufferPointer, _ environment: APNsEnvironment, milliseconds: UInt64) {
        Self.withEncodedToken(token, environment) { form, token in
            writeNumber(UInt64(token.count), byteCount: 2)
            writeNumber(milliseconds, byteCount: StoredActivity.millisecondsBytes)
            writeByte(form.rawValue)
            writeVerbatim(token)
        }
    }

    /// Writes a registration as a call of a ``RegistrationBatch``.
    mutating func writeRegistration(
        _ bits: UInt8,
        _ registration: TokenRegistration<UnsafeRawBufferPointer>,
        audiences: UnsafeRawBufferPointer?,
        shownVersion: Version?,
        source: RegistrationSource
    ) {
        let audienceCount = audiences.map { AudienceList($0).count } ?? 0
        Self.withEncodedToken(registration.token, registration.environment) { form, token in
            writeByte(bits)
            writeByte(form.rawValue)
            writeNumber(UInt64(token.count), byteCount: 2)
            writeByte(UInt8(audienceCount))
            writeNumber(
                StoredTime.clampedMilliseconds(registration.registeredAtMilliseconds),
                byteCount: StoredActivity.millisecondsBytes
            )
            writeVerbatim(token)
        }
        if let audiences, audienceCount > 0 {
            writeByte(UInt8(audienceCount))
            writeByte(0)
            writeVerbatim(audiences)
        }
        if let shownVersion { writeStoredVersion(shownVersion) }
        if case .reread(let alertsReleasedUntilMilliseconds, let writtenAtMilliseconds) = source {
            writeMilliseconds(alertsReleasedUntilMilliseconds)
            writeMilliseconds(writtenAtMilliseconds)
        }
    }

    /// Writes a call of a ``RegistrationBatch`` that confirms an activity's departures: each audience that the activity
    /// left has an entry about this.
    ///
    /// - Parameter leftAtMilliseconds: the time that an earlier reply gave with the departures. If Redis has another
    ///   time now, the confirmation has no effect.
    mutating func writeDepartureConfirmation(_ bits: UInt8, leftAtMilliseconds: Int64) {
        writeByte(bits)
        writeNumber(0, byteCount: 4)
        writeNumber(StoredTime.clampedMilliseconds(leftAtMilliseconds), byteCount: StoredActivity.millisecondsBytes)
    }

    private mutating func writeStoredVersion(_ version: Version) {
        writeBytes(StoredVersion.byteCount) { StoredVersion.write(version, to: $0) }
    }

    private mutating func writeVersionText(_ version: Version) {
        writeBytes(StoredVersion.textByteCount) { StoredVersion.writeText(version, to: $0) }
    }

    private mutating func writeMilliseconds(_ milliseconds: Int64) {
        writeNumber(StoredTime.clampedMilliseconds(milliseconds), byteCount: StoredActivity.millisecondsBytes)
    }

    private mutating func writeNumber(_ value: UInt64, byteCount: Int) {
        writeBytes(byteCount) { LittleEndian.write(value, byteCount: byteCount, to: $0) }
    }

    private mutating func writeDeviceTokenArguments(
        _ token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        registeredAtMilliseconds: Int64?
    ) {
        withUnsafeTemporaryAllocation(byteCount: StoredDeviceToken.bytesMax + StoredTime.digitCount, alignment: 1) {
            memory in
            // `memory` is not empty, so its address is not nil.
            let start = memory.baseAddress.unsafelyUnwrapped
            let timeBytes = registeredAtMilliseconds == nil ? 0 : StoredTime.digitCount
            if let registeredAtMilliseconds { StoredTime.write(registeredAtMilliseconds, to: start) }
            let length = timeBytes + StoredDeviceToken.encode(token, environment, to: start + timeBytes)
            let firstFieldBytes = min(length, timeBytes + StoredDeviceToken.tokenBytesInFieldTMax)
            writeArgument(UnsafeRawBufferPointer(rebasing: memory[..<firstFieldBytes]))
            writeArgument(UnsafeRawBufferPointer(rebasing: memory[firstFieldBytes..<length]))
        }
    }

    private static func withEncodedToken(
        _ token: UnsafeRawBufferPointer,
        _ environment: APNsEnvironment,
        _ body: (TokenForm, UnsafeRawBufferPointer) -> Void
    ) {
        withUnsafeTemporaryAllocation(byteCount: StoredDeviceToken.bytesMax, alignment: 1) { memory in
            // `memory` is not empty, so its address is not nil.
            let (form, length) = StoredDeviceToken.encodeBytes(
                of: token,
                environment,
                to: memory.baseAddress.unsafelyUnwrapped
            )
            body(form, UnsafeRawBufferPointer(rebasing: memory[..<length]))
        }
    }
}

extension Settlement {
    /// The first byte of the first argument of the script `settle`: how the start ended.
    fileprivate var letter: UInt8 {
        switch self {
        case .accepted: UInt8(ascii: "a")
        case .notShown: UInt8(ascii: "f")
        case .unknown: UInt8(ascii: "u")
        }
    }
}
