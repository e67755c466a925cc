import LiveActivity
import Redis

/// Collects updates, ends and settlements of activities, so that one script call performs many of them (R15). The
/// script gets a key for each collected call, one argument with all calls, and an argument for each pace that the calls
/// name. A call in the first argument has these bytes:
///
/// | bytes | in an update or an end | in a settlement |
/// | --- | --- | --- |
/// | 1–13 | the version, as ``StoredVersion`` writes it | the same |
/// | 14 | the number of the pace's argument, and ``PaceByteFlags`` | if it reports a 429: the number of the pace's argument; otherwise 0 |
/// | 15 | ``CallRequestBits`` | the ``SettlementCode`` and ``CallRequestBits`` |
/// | 16–20 | the version's timestamp again, so that bytes 14 to 20 can be read as one number | the same |
/// | 21–26 | the digest, see ``StoredDigest`` | the same |
/// | 27–28 | if there is a token: the number of its bytes | the same |
/// | 29–34 | when the token was registered, milliseconds | a time: the token is retired only if it was registered earlier |
/// | 35 | the ``TokenForm`` | the same |
/// | 36– | the token | the same |
/// | last 13 | only with ``CallRequestBits/alertFollowsBit``: the version of an older command whose alert this command carries | only with this bit: the version of the command whose alert APNs has accepted |
///
/// The script reads the values of all keys before it writes any. So a later call with the same key would not see the
/// change of an earlier call. Therefore the later call has ``CallRequestBits/mayRepeatKeyBit``, and for this call the
/// script reads the value again.
///
/// The memory is allocated once.
struct CommandCallBatch: ~Copyable {
    static let callsMax = RedisConnection.callsPerCommandMax
    /// The maximum number of different paces in one script call; a call with a further pace waits for the next script
    /// call. It must be below 16, because the number of a pace's argument has only four bits of byte 14.
    static let pacesMax = 8
    /// The number of the first argument that has a pace. Argument 1 has all calls.
    private static let firstPaceArgumentNumber: UInt8 = 2
    /// The length of a call without token and alert, in bytes. The first argument of the script `admit` is a batch of
    /// calls, or the name of an operation. A batch has at least `callBytesMin` bytes, and every name is shorter. So the
    /// script tells them apart by their length.
    static let callBytesMin = StoredVersion.byteCount + 2 + StoredActivity.secondsBytes + StoredDigest.byteCount
    /// The maximum length of one call in the argument that has all calls, in bytes.
    private static let callBytesMax =
        callBytesMin + 2 + StoredActivity.millisecondsBytes + 1 + StoredDeviceToken.bytesMax + StoredVersion.byteCount

    let capacity: Int
    private var keys: BatchKeys
    private let arguments: UnsafeMutableRawBufferPointer
    private var argumentByteCount = 0
    private let paces: UnsafeMutableBufferPointer<Policy.Pace>
    private var paceCount = 0
    /// The index of the pace of the last added call. `index(of:)` looks there first, because the next call usually has
    /// the same pace.
    private var lastPaceIndex = 0

    init(capacity: Int) {
        precondition((1...Self.callsMax).contains(capacity))
        self.capacity = capacity
        keys = BatchKeys(capacity: capacity)
        arguments = .allocate(
            byteCount: capacity * Self.callBytesMax + RedisCommandWriter.argumentOverheadBytes,
            alignment: 1
        )
        paces = .allocate(capacity: Self.pacesMax)
    }

    deinit {
        arguments.deallocate()
        paces.deallocate()
    }

    var count: Int { keys.count }
    var isFull: Bool { count == capacity }

    /// Whether the batch has room for a call with this pace. If not, the caller must first write and empty the batch.
    func hasRoom(for pace: Policy.Pace) -> Bool {
        count < capacity && (paceCount < Self.pacesMax || index(of: pace) != nil)
    }

    /// Adds an update or an end.
    /// - Precondition: the batch has room for the admission's pace (``hasRoom(for:)``).
    mutating func append(_ key: UnsafeRawBufferPointer, _ admission: StateAdmission<UnsafeRawBufferPointer>) {
        let paceNumber = findOrAddPaceNumber(for: admission.pace)
        let mayRepeatKey = keys.appendAndCheckForRepeat(key)
        let requestBits = CallRequestBits.bits(of: admission) | (mayRepeatKey ? CallRequestBits.mayRepeatKeyBit : 0)
        var writer = RedisCommandWriter(arguments, continuingAt: argumentByteCount)
        let ageBit = admission.isTooOld ? PaceByteFlags.isTooOldBit : 0
        let rereadBit = admission.isReread && admission.registration != nil ? PaceByteFlags.isRereadBit : 0
        let newerLifeBit = admission.isEnd && admission.endsNewerLife ? PaceByteFlags.endsNewerLifeBit : 0
        let lifetimeEndBit = admission.isEnd && admission.isLifetimeEnd ? PaceByteFlags.isLifetimeEndBit : 0
        writer.writeCallHead(
            paceBits: paceNumber | ageBit | rereadBit | newerLifeBit | lifetimeEndBit,
            requestBits: requestBits,
            admission.version,
            admission.digest
        )
        if let registration = admission.registration {
            let registeredAtMilliseconds = StoredTime.clampedMilliseconds(registration.registeredAtMilliseconds)
            writer.writeToken(registration.token, registration.environment, milliseconds: registeredAtMilliseconds)
        }
        if let alert = admission.carriedAlertVersion { writer.writeAlertVersion(alert) }
        argumentByteCount = writer.count
    }

    /// Adds a settlement.
    ///
    /// - Parameter pace: the activity's pace if the settlement reports a 429, otherwise nil. The batch must have room
    ///   for the pace (``hasRoom(for:)``).
    mutating func append(
        _ key: UnsafeRawBufferPointer,
        _ code: SettlementCode,
        _ version: Version,
        digest: UInt64,
        pace: Policy.Pace?,
        _ retirement: TokenRetirement<UnsafeRawBufferPointer>?,
        alert: Version?
    ) {
        let paceNumber = pace.map { findOrAddPaceNumber(for: $0) } ?? 0
        let mayRepeatKey = keys.appendAndCheckForRepeat(key)
        let followBits =
            (retirement == nil ? 0 : CallRequestBits.tokenFollowsBit)
            | (alert == nil ? 0 : CallRequestBits.alertFollowsBit)
        let repeatBit = mayRepeatKey ? CallRequestBits.mayRepeatKeyBit : 0
        let requestBits = code.rawValue | CallRequestBits.isSettlementBit | followBits | repeatBit
        var writer = RedisCommandWriter(arguments, continuingAt: argumentByteCount)
        writer.writeCallHead(paceBits: paceNumber, requestBits: requestBits, version, digest)
        if let retirement {
            // If APNs named no time, the token must be retired whenever it was registered. So write the latest possible
            // time, because every registration is earlier.
            let invalidAtMilliseconds =
                retirement.invalidAtMilliseconds.map { StoredTime.clampedMilliseconds($0) } ?? .max
            writer.writeToken(retirement.token, retirement.environment, milliseconds: invalidAtMilliseconds)
        }
        if let alert { writer.writeAlertVersion(alert) }
        argumentByteCount = writer.count
    }

    /// The maximum length of the Redis command that `write` writes, without `prefix`.
    var commandBytesMax: Int {
        keys.bytes.count + argumentByteCount + paceCount * StoredPace.byteCount
            + (paceCount + 3) * RedisCommandWriter.argumentOverheadBytes
    }

    /// Writes the Redis command for all collected calls, and returns its length in bytes.
    func write(prefix: UnsafeRawBufferPointer, to room: UnsafeMutableRawBufferPointer) -> Int {
        let argumentCount = ScriptCallPrefixes.argumentsPerPrefix + 2 + count + paceCount
        var writer = RedisCommandWriter(room, argumentCount: argumentCount)
        writer.writeVerbatim(prefix)
        writer.writeArgument(number: count)
        writer.writeVerbatim(keys.bytes)
        writer.writeArgument(UnsafeRawBufferPointer(rebasing: arguments[..<argumentByteCount]))
        for pace in paces[..<paceCount] {
            writer.writeArgument(byteCount: StoredPace.byteCount) {
                $0.writeBytes(StoredPace.byteCount) { StoredPace.write(pace, to: $0) }
            }
        }
        return writer.count
    }

    mutating func removeAll() {
        keys.removeAll()
        argumentByteCount = 0
        paceCount = 0
        lastPaceIndex = 0
    }

    // MARK: - Paces

    private func index(of pace: Policy.Pace) -> Int? {
        if lastPaceIndex < paceCount, paces[lastPaceIndex] == pace { return lastPaceIndex }
        return paces[..<paceCount].firstIndex(of: pace)
    }

    /// Returns the number of the argument that has the pace. Adds an argument if the pace is new.
    private mutating func findOrAddPaceNumber(for pace: Policy.Pace) -> UInt8 {
        precondition(hasRoom(for: pace), "a call was added to a batch without room")
        if let knownIndex = index(of: pace) {
            lastPaceIndex = knownIndex
        } else {
            paces.initializeElement(at: paceCount, to: pace)
            lastPaceIndex = paceCount
            paceCount += 1
        }
        return Self.firstPaceArgumentNumber + UInt8(lastPaceIndex)
    }
}

/// Flags of an update or an end in a ``CommandCallBatch``: the highest four bits of byte 14. The lower four bits of
/// this byte are the number of the argument that has the pace. The script's name of a flag is this name without `Bit`:
/// IS_TOO_OLD.
enum PaceByteFlags {
    /// The end is that of a lifetime (``StateAdmission/isLifetimeEnd``).
    static let isLifetimeEndBit: UInt8 = 16
    /// The end also ends a life that a newer start began (R13, ``StateAdmission/endsNewerLife``).
    static let endsNewerLifeBit: UInt8 = 32
    /// The command brings a token, and is read again because Redis lost data. So the life of its activity may have
    /// begun earlier than now: when the token was registered.
    static let isRereadBit: UInt8 = 64
    /// The command is so old that no phone can still show its activity. If Redis knows no version of the activity, the
    /// command is `expired`.
    static let isTooOldBit: UInt8 = 128
}

/// What a call in a ``CommandCallBatch`` requests, and which parts it has after its fixed part: the bits of byte 15.
/// The script's name of a bit is this name without `Bit`: ALERT_FOLLOWS.
enum CallRequestBits {
    static let requestsHighPriorityBit: UInt8 = 1
    static let mayUseReserveBit: UInt8 = 2
    static let mayReplaceHeldAlertBit: UInt8 = 4
    static let isEndBit: UInt8 = 8
    /// The call has a token, from byte 27 on. An update or an end registers the token, a settlement retires it.
    static let tokenFollowsBit: UInt8 = 16
    /// The call is a settlement, and the lower bits are a ``SettlementCode``.
    static let isSettlementBit: UInt8 = 32
    /// The last 13 bytes of the call are the version of a command with an alert.
    static let alertFollowsBit: UInt8 = 64
    /// An earlier call of the batch may have the same key, so the script reads the key's value again.
    static let mayRepeatKeyBit: UInt8 = 128

    static func bits(of admission: StateAdmission<UnsafeRawBufferPointer>) -> UInt8 {
        (admission.requestsHighPriority ? requestsHighPriorityBit : 0)
            | (admission.mayUseReserve ? mayUseReserveBit : 0)
            | (admission.mayReplaceHeldAlert ? mayReplaceHeldAlertBit : 0) | (admission.isEnd ? isEndBit : 0)
            | (admission.registration == nil ? 0 : tokenFollowsBit)
            | (admission.carriedAlertVersion == nil ? 0 : alertFollowsBit)
    }
}

/// What a settlement reports, as a number that the script `admit` reads. Codes below `throttled` settle a version, the
/// others do not.
enum SettlementCode: UInt8 {
    case accepted = 0
    case notShown = 1
    case unknown = 2
    /// APNs responded with 429. The script recognizes this code by its two lowest bits, because it must read the
    /// server's clock for it. So no other code may have both bits.
    case throttled = 3
    /// Redis must retire the token (R17), but settle no version. There are two cases:
    /// - The push of a command found the token dead, and the command now waits for the next token.
    /// - A push to an audience found the token dead.
    case tokenRetired = 4

    init(_ settlement: Settlement) {
        switch settlement {
        case .accepted: self = .accepted
        case .notShown: self = .notShown
        case .unknown: self = .unknown
        }
    }
}
