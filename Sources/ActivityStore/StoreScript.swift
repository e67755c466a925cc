import LiveActivity
import Redis

/// The scripts for activities and devices.
public enum StoreScript: Int, Sendable, CaseIterable {
    /// Decides about commands, held commands, registrations and requests for a start's token; also settles and reopens
    /// versions of activities, and notes departures that a worker has confirmed.
    case admit
    /// Settles starts on devices, and refunds the draws of starts that were not sent.
    case settle
    /// Keeps the timetables of lifetimes: adds and removes lives, and checks whether a life continues.
    case lifetime

    /// The texts of the scripts, by the scripts' raw values. They are made once: putting in all constants takes
    /// milliseconds, which is too long for a lane that reconnects.
    static let luaSources = allCases.map(\.luaSource)

    var luaSource: String {
        Self.luaSource(of: parts, Self.constants)
    }

    /// The script's files, in the order in which they are joined. Redis runs one text, and a script cannot load
    /// another.
    var parts: [[UInt8]] {
        switch self {
        case .admit:
            [
                PackageResources.admit_lua, PackageResources.versions_lua, PackageResources.registration_times_lua,
                PackageResources.admit_values_lua,
                PackageResources.admit_settlements_lua, PackageResources.admit_updates_lua,
                PackageResources.admit_batches_lua, PackageResources.digest_lists_lua,
                PackageResources.admit_activities_lua, PackageResources.admit_registrations_lua,
                PackageResources.held_starts_lua, PackageResources.admit_devices_lua,
            ]
        case .settle:
            [
                PackageResources.registration_times_lua, PackageResources.digest_lists_lua,
                PackageResources.held_starts_lua, PackageResources.settle_lua,
            ]
        case .lifetime: [PackageResources.lifetime_lua]
        }
    }

    /// Joins the parts of a script, and replaces its named constants by their values.
    static func luaSource(of parts: [[UInt8]], _ constants: [(name: String, value: Int64)]) -> String {
        constants.reduce(String(decoding: parts.joined(), as: UTF8.self)) { source, constant in
            source.replacing("@\(constant.name)@", with: String(constant.value))
        }
    }

    /// The constants that the scripts share with the Swift code of this module. A script names a constant as `@NAME@`.
    /// Before the script is loaded, the constant's value replaces this name.
    static let constants: [(name: String, value: Int64)] =
        plainConstants + bitsWithModulus + bitsWithModulus.map { (name: "\($0.name)_MODULUS", value: 2 * $0.value) }

    private static let plainConstants: [(name: String, value: Int64)] = [
        // Limits, and how long values are stored.
        ("ACTIVITY_EXPIRY_MILLISECONDS", StoreLimits.activityExpiryMilliseconds),
        ("DEVICE_EXPIRY_MILLISECONDS", StoreLimits.deviceExpiryMilliseconds),
        ("UPDATE_PERIOD_SECONDS", StoreLimits.updatePeriodSeconds),
        ("HELD_STARTS_MAX", Int64(StoreLimits.heldStartsMax)),
        ("REPLY_STRING_BYTES_MAX", Int64(ReplyReader.stringBytesMax)),
        ("TIMESTAMP_MAX", Limits.timestampMax),
        // A time in milliseconds: its maximum, its length as text, and its length as a number.
        ("TIME_MAX", StoredTime.millisecondsMax),
        ("TIME_DIGITS", Int64(StoredTime.digitCount)),
        ("TIME_BYTES", Int64(StoredActivity.millisecondsBytes)),
        ("REGISTRATION_LEAD_MAX", RegistrationTime.leadMillisecondsMax),
        ("DOUBLINGS_MAX", Int64(StoreLimits.spacingDoublingsMax)),
        ("CLAIM_DELAY_FACTOR_MAX", StoreLimits.claimDelayFactorMax),
        ("CLAIMS_DURING_ANOTHER_END_MAX", StoreLimits.claimsDuringAnotherEndMax),
        // An activity's value: its parts' sizes and flags, and where they begin (`AT_`). Lua counts bytes from 1, but
        // SETRANGE from 0. All writes with SETRANGE begin at the digest, so only the digest has a second constant.
        ("AT_DIGEST", Int64(StoredActivity.digestByteOffset + 1)),
        ("DIGEST_BYTE_OFFSET", Int64(StoredActivity.digestByteOffset)),
        ("AT_PHASE", Int64(StoredActivity.phaseByteOffset + 1)),
        ("AT_VERSION", Int64(StoredActivity.versionByteOffset + 1)),
        ("AT_BUCKET", Int64(StoredActivity.budgetFullAtByteOffset + 1)),
        ("AT_ASSIGNED", Int64(StoredActivity.assignedTimestampByteOffset + 1)),
        ("AT_REGISTERED", Int64(StoredActivity.registrationTimeByteOffset + 1)),
        ("AT_TOKEN", Int64(StoredActivity.tokenByteOffset + 1)),
        // The length of the part that every value has: all bytes before the token.
        ("FIXED_BYTES", Int64(StoredActivity.tokenByteOffset)),
        ("HAS_ACCEPTED_ALERT", Int64(StoredActivity.acceptedAlertFollowsBit)),
        ("UNCONFIRMED_DEPARTURES_MAX", Int64(StoreLimits.unconfirmedDeparturesMax)),
        ("VERSION_BYTES", Int64(StoredVersion.byteCount)),
        // The length of a version's text, and of the timestamp at the beginning of this text.
        ("VERSION_TEXT_BYTES", Int64(StoredVersion.textByteCount)),
        ("TIMESTAMP_DIGITS", Int64(StoredVersion.timestampDigitCount)),
        ("AUDIENCE_DIGEST_BYTES", Int64(AudienceList.digestBytes)),
        ("THROTTLE_BYTES", Int64(StoredActivity.throttleBytes)),
        ("UNACCEPTED_START_BYTES", Int64(StoredActivity.unacceptedStartBytes)),
        // Bytes 5 and 6 are one number: the token's length plus two flags. Modulo the lower flag, it is the length.
        ("TOKEN_LENGTH_MODULUS", Int64(1 << StoredActivity.followBitsInTokenByteCount.trailingZeroBitCount)),
        // The numbers that say where a token comes from (`RegistrationSource`).
        ("FROM_COMMAND", Int64(RegistrationSource.commandCode)),
        ("FROM_REREADING", Int64(RegistrationSource.rereadCode)),
        // Byte 7 is the token's form plus flags. Modulo the lowest flag, it is the form.
        ("FORM_MODULUS", Int64(StoredActivity.Flag.allowsFrequentUpdatesBit)),
        ("HAS_RETIRED_TOKEN", Int64(StoredActivity.Flag.hasRetiredTokenBit)),
        ("RETIRED_BYTES", Int64(StoredActivity.retiredTokenDigestBytes)),
        // Phases of the newest version. The scripts compare phases by the order of their letters. `admit.lua` lists the
        // rules for this order.
        ("NO_VERSION", letter("n")), ("WAITING", letter("w")), ("SENDING", letter("a")), ("START_SENDING", letter("b")),
        ("HELD", letter("h")), ("SENDING_HELD", letter("k")), ("HELD_ALERT", letter("i")),
        ("SENDING_HELD_ALERT", letter("l")), ("WAITING_OLDER_ALERT", letter("x")),
        ("SENDING_OLDER_ALERT", letter("y")), ("SETTLED", letter("s")), ("NOT_SHOWN", letter("f")),
        // The letter of a start that Redis knows only from a record that was read again.
        ("START_RECORDED_AGAIN", letter("r")),
        ("HAS_DRAWN", Int64(StoredActivity.PhaseBit.hasDrawnBit)),
        ("UPPER_CASE", letter("a") - letter("A")),
        // The factors that put several values into one number (`PackedNumber`), and the numbers of priorities.
        ("TIMESTAMP_FACTOR", PackedNumber.timestampFactor), ("REQUEST_FACTOR", PackedNumber.requestFactor),
        ("PRIORITY_FACTOR", PackedNumber.priorityFactor), ("SENT_AT_FACTOR", PackedNumber.sentAtFactor),
        ("LENGTH_FACTOR", PackedNumber.tokenByteCountFactor), ("FLAGS_FACTOR", PackedNumber.flagsFactor),
        ("FORM_AND_LENGTH_FACTOR", formAndLengthFactor),
        ("HAS_THROTTLE_IN_FORM_AND_LENGTH", Int64(StoredActivity.Flag.hasThrottleBit) * formAndLengthFactor),
        ("PRIORITY_LOW", Int64(GrantedPriority.low.rawValue)), ("PRIORITY_HIGH", Int64(GrantedPriority.high.rawValue)),
        ("PRIORITY_DEMOTED", Int64(GrantedPriority.demoted.rawValue)),
        // Where four parts of a pace begin, counted from 1 (`StoredPace` lists the parts). First: the spacing and the
        // budget.
        ("AT_BUDGET_PART", 1),
        // The spacing again, and the budget for activities with frequent updates.
        ("AT_FREQUENT_BUDGET_PART", Int64(StoredPace.frequentBudgetPartByteOffset + 1)),
        // The longest spacing, which the recovery follows.
        ("AT_LONGEST_SPACING", Int64(StoredPace.longestSpacingByteOffset + 1)),
        // The longest time that a bucket of any policy takes to fill.
        ("AT_LONGEST_FILL", Int64(StoredPace.longestFillByteOffset + 1)),
        // A call in a batch: its least length, and the highest bit of its byte 14. A script tests the highest bit
        // without a modulus, so this bit is not in `bitsWithModulus`.
        ("CALL_BYTES", Int64(CommandCallBatch.callBytesMin)),
        ("IS_TOO_OLD", Int64(PaceByteFlags.isTooOldBit)),
        // Byte 14 is the number of the pace's argument plus four flags. Modulo the lowest flag, it is the number.
        ("PACE_NUMBER_MODULUS", Int64(PaceByteFlags.isLifetimeEndBit)),
        // Byte 15 of a settlement is its code plus flags. Modulo the lowest flag, it is the code.
        ("SETTLEMENT_CODE_MODULUS", Int64(CallRequestBits.tokenFollowsBit)),
        // Bits of byte 15, multiplied because the script reads bytes 14 and 15 as one number, `requestAndPace`
        // (admit-batches.lua). ACCEPTANCE_REQUEST is this number in a settlement with the code ACCEPTED and without a
        // token or alert.
        ("MAY_REPLACE_HELD_ALERT_IN_REQUEST", bitInRequest(CallRequestBits.mayReplaceHeldAlertBit)),
        ("IS_END_IN_REQUEST", bitInRequest(CallRequestBits.isEndBit)),
        ("IS_SETTLEMENT_IN_REQUEST", bitInRequest(CallRequestBits.isSettlementBit)),
        ("IS_SETTLEMENT_IN_REQUEST_MODULUS", 2 * bitInRequest(CallRequestBits.isSettlementBit)),
        ("MAY_REPEAT_KEY_IN_REQUEST", bitInRequest(CallRequestBits.mayRepeatKeyBit)),
        ("ACCEPTANCE_REQUEST", bitInRequest(CallRequestBits.isSettlementBit | SettlementCode.accepted.rawValue)),
        // The codes for what a settlement reports, and the first byte of a refund's argument to the script `settle`.
        ("ACCEPTED", Int64(SettlementCode.accepted.rawValue)),
        ("SETTLED_NOT_SHOWN", Int64(SettlementCode.notShown.rawValue)),
        ("THROTTLED", Int64(SettlementCode.throttled.rawValue)),
        ("REFUND", letter("g")),
        // A call in a batch of registrations: its two highest bits, and two numbers for reading where its token comes
        // from (`RegistrationSource`): `(bits % @SOURCE_MODULUS@ - bits % @SOURCE_FACTOR@) / @SOURCE_FACTOR@`. For
        // example, if `bits` is 41 (32 + 8 + 1), the result is (41 % 16 - 41 % 4) / 4 = 2.
        ("IS_DEPARTURE_CONFIRMATION", Int64(RegistrationBits.isDepartureConfirmationBit)),
        ("REGISTRATION_MAY_REPEAT_KEY", Int64(RegistrationBits.mayRepeatKeyBit)),
        ("SOURCE_FACTOR", 1 << Int64(RegistrationBits.sourceShift)),
        ("SOURCE_MODULUS", Int64(RegistrationBits.mentionsAudiencesBit)),
    ]

    /// The bits that a script tests while higher bits of the number may be set. For each of them, the scripts also get
    /// a modulus, which is twice the bit. For example, `flags % @HAS_START_MODULUS@ >= @HAS_START@` tests only the bit
    /// `HAS_START`.
    private static let bitsWithModulus: [(name: String, value: Int64)] = [
        // Bits of an activity's value (`StoredActivity`).
        ("HAS_AUDIENCES", Int64(StoredActivity.audiencesFollowBit)),
        ("ALLOWS_FREQUENT", Int64(StoredActivity.Flag.allowsFrequentUpdatesBit)),
        ("HAS_THROTTLE", Int64(StoredActivity.Flag.hasThrottleBit)),
        ("HAS_CLAIM", Int64(StoredActivity.Flag.hasClaimBit)),
        ("HAS_START", Int64(StoredActivity.Flag.hasStartBit)),
        ("OWN_TIMESTAMP", Int64(StoredActivity.PhaseBit.ownTimestampBit)),
        // Bits of byte 14 of a call in a batch (`PaceByteFlags`).
        ("IS_LIFETIME_END", Int64(PaceByteFlags.isLifetimeEndBit)),
        ("ENDS_NEWER_LIFE", Int64(PaceByteFlags.endsNewerLifeBit)),
        ("IS_REREAD", Int64(PaceByteFlags.isRereadBit)),
        // Bits of byte 15 of a call in a batch (`CallRequestBits`).
        ("REQUESTS_HIGH_PRIORITY", Int64(CallRequestBits.requestsHighPriorityBit)),
        ("MAY_USE_RESERVE", Int64(CallRequestBits.mayUseReserveBit)),
        ("MAY_REPLACE_HELD_ALERT", Int64(CallRequestBits.mayReplaceHeldAlertBit)),
        ("IS_END", Int64(CallRequestBits.isEndBit)),
        ("TOKEN_FOLLOWS", Int64(CallRequestBits.tokenFollowsBit)),
        ("IS_SETTLEMENT", Int64(CallRequestBits.isSettlementBit)),
        ("ALERT_FOLLOWS", Int64(CallRequestBits.alertFollowsBit)),
        // Bits of byte 1 of a call in a batch of registrations (`RegistrationBits`).
        ("REGISTRATION_MENTIONS_FREQUENT", Int64(RegistrationBits.mentionsFrequentUpdatesBit)),
        ("REGISTRATION_ALLOWS_FREQUENT", Int64(RegistrationBits.allowsFrequentUpdatesBit)),
        ("MENTIONS_AUDIENCES", Int64(RegistrationBits.mentionsAudiencesBit)),
        ("VERSION_FOLLOWS", Int64(RegistrationBits.versionFollowsBit)),
    ]

    /// Packs bytes 5–7 of an activity's value: byte 7 × this factor + the number in bytes 5–6.
    private static let formAndLengthFactor = PackedNumber.flagsFactor / PackedNumber.tokenByteCountFactor

    private static func bitInRequest(_ bit: UInt8) -> Int64 { Int64(bit) * PackedNumber.requestFactor }

    private static func letter(_ letter: Unicode.Scalar) -> Int64 { Int64(letter.value) }
}
