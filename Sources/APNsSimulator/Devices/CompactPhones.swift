/// The stored state of one compact phone. The id and token of the phone's activity are computed from the phone's number
/// (``CompactCrowd``). The state has 28 bytes, so ten million phones fit into 280 MB. To save memory, some counts have
/// 16 bits; they stop at 65,535.
struct CompactPhone: BitwiseCopyable {
    enum CompactActivityState: UInt8, BitwiseCopyable {
        case active, ended, gone
    }

    /// What the phone shows: an index in ``CompactPhones/states``.
    var shownStateIndex: UInt32 = 0
    /// All pushes that have reached the phone, including pushes that the phone dropped.
    var pushCount: UInt32 = 0
    /// Pushes whose timestamp was below that of the shown content.
    var outdatedPushCount: UInt16 = 0
    /// Pushes whose timestamp was equal to that of the shown content.
    var equalTimestampPushCount: UInt16 = 0
    var alertCount: UInt16 = 0
    /// Alerts equal to one of the last four different alerts of the phone.
    var repeatedAlertCount: UInt16 = 0
    /// Pushes that APNs refused with 410, because their token was no longer valid.
    var refusedPushCount: UInt16 = 0
    /// The number of tokens that the activity had before the current one, modulo 256.
    var tokenGeneration: UInt8 = 0
    var activityState = CompactActivityState.active
    /// The numbers of the last four different alerts that the phone got (``CompactPhones/findOrAddAlert(_:)``);
    /// 0: none.
    var lastAlertNumbers: (UInt16, UInt16, UInt16, UInt16) = (0, 0, 0, 0)

    /// Counts an alert. Also counts it as repeated if it is one of the phone's last four different alerts.
    ///
    /// - Parameter number: the alert's number (``CompactPhones/findOrAddAlert(_:)``).
    mutating func countAlert(_ number: UInt16) {
        alertCount += alertCount < .max ? 1 : 0
        if lastAlertNumbers.0 == number || lastAlertNumbers.1 == number || lastAlertNumbers.2 == number
            || lastAlertNumbers.3 == number
        {
            repeatedAlertCount += repeatedAlertCount < .max ? 1 : 0
            return
        }
        lastAlertNumbers = (number, lastAlertNumbers.0, lastAlertNumbers.1, lastAlertNumbers.2)
    }
}

/// All compact phones of a simulation, grouped in crowds, and the states that they show.
struct CompactPhones {
    static let crowdsMax = 64
    static let phonesMax = 20_000_000
    /// The maximum number of different content states with an index of their own. All later states share the last
    /// index.
    static let distinctStatesMax = 100_000
    /// The maximum number of different alerts with a number of their own. All later alerts share the last number. There
    /// are no more numbers, because a phone keeps the number of an alert in 16 bits.
    static let distinctAlertsMax = 65_535
    /// The maximum number of decoded bodies in the cache. A few are enough, because an audience gets few different
    /// bodies at a time.
    private static let decodedBodiesMax = 8

    struct Crowd {
        let definition: CompactCrowd
        let appIndex: Int
        var phones: [CompactPhone]
        /// The time that a 410 gives for every invalid token of the crowd, UNIX milliseconds: when tokens of the crowd
        /// last became invalid. A compact phone has no room for a time of its own.
        var tokensRetiredAtMilliseconds: Int64 = 0
        var effects = EffectCounts()
        var priority10PushCount = 0
    }

    /// One content state that phones show, and the number and times of the pushes with this state.
    struct ShownState {
        /// The timestamp of the pushes with this state, UNIX seconds.
        var timestamp: Int64
        /// The content state as JSON; empty for the initial content.
        var content: [UInt8]
        /// Pushes that made a phone show this state.
        var pushCount = 0
        /// When a push first made a phone show this state, UNIX milliseconds; -1: no push did.
        var firstShownAtMilliseconds: Int64 = -1
        /// When a push last made a phone show this state, UNIX milliseconds; -1: no push did.
        var lastShownAtMilliseconds: Int64 = -1
    }

    private struct StateKey: Hashable {
        var timestamp: Int64
        var content: [UInt8]
    }

    /// The content of a push's body. It is cached, because all phones of an audience get the same body.
    struct DecodedBody {
        var body: [UInt8]
        var event: PushPayload.Event
        /// The `aps.timestamp` in the body, UNIX seconds.
        var timestamp: Int64
        /// The content state, as an index of `states`; nil: the body has none.
        var stateIndex: UInt32?
        /// The number of the alert (`findOrAddAlert(_:)`); 0: the body has no alert object.
        var alertNumber: UInt16
    }

    var crowds: [Crowd] = []
    /// The key of each crowd, in the order of `crowds`. The keys have an array of their own, because every push
    /// searches them.
    private var crowdKeys: [UInt64] = []
    private(set) var states: [ShownState] = []
    private var stateIndicesByKey: [StateKey: UInt32] = [:]
    private(set) var alertNumbersByJSON: [[UInt8]: UInt16] = [:]
    private var decodedBodies: [DecodedBody] = []
    private var nextReplacedBodyIndex = 0

    var phoneCount: Int { crowds.reduce(0) { $0 + $1.phones.count } }

    mutating func append(_ crowd: Crowd) {
        crowds.append(crowd)
        crowdKeys.append(crowd.definition.key)
    }

    // MARK: - Finding a phone by its token

    /// Returns the index of the crowd, the number of the phone and the generation of the token; nil if the token
    /// belongs to no crowd.
    func find(_ token: UnsafeRawBufferPointer) -> (crowd: Int, number: Int, generation: UInt8)? {
        guard !crowdKeys.isEmpty, token.count == TokenTable.tokenByteCount else { return nil }
        let key = CompactToken.key(of: token)
        guard let crowd = crowdKeys.firstIndex(of: key),
            let owner = CompactToken.numberAndGeneration(of: token, crowd: key),
            owner.number < crowds[crowd].phones.count
        else { return nil }
        return (crowd, owner.number, owner.generation)
    }

    // MARK: - Reading the bodies of pushes

    /// Decodes a push's body, or takes the result from the cache. Adds a new content state to `states`, and a new alert
    /// to the numbered alerts. Returns nil if phones cannot decode the body.
    mutating func decode(_ body: UnsafeRawBufferPointer, tape: inout JSONTape) -> DecodedBody? {
        for decodedBody in decodedBodies where decodedBody.body.withUnsafeBytes({ isEqual($0, body) }) {
            return decodedBody
        }
        guard let payload = try? PushPayload(body, tape: &tape) else { return nil }
        let decodedBody = DecodedBody(
            body: Array(body),
            event: payload.event,
            timestamp: payload.timestamp,
            stateIndex: payload.contentStateIndex.map {
                findOrAddState(Array(tape.bytes($0)), timestamp: payload.timestamp)
            },
            alertNumber: payload.alertIndex.map {
                tape[$0].kind == .object ? findOrAddAlert(Array(tape.bytes($0))) : 0
            } ?? 0
        )
        if decodedBodies.count < Self.decodedBodiesMax {
            decodedBodies.append(decodedBody)
        } else {
            decodedBodies[nextReplacedBodyIndex] = decodedBody
            nextReplacedBodyIndex = (nextReplacedBodyIndex + 1) % Self.decodedBodiesMax
        }
        return decodedBody
    }

    /// Returns the index of a state in `states`, after adding the state if it is new. If `states` is full
    /// (`distinctStatesMax`), a new state gets the last index, and its pushes count for the last stored state.
    mutating func findOrAddState(_ content: [UInt8], timestamp: Int64) -> UInt32 {
        let key = StateKey(timestamp: timestamp, content: content)
        if let known = stateIndicesByKey[key] { return known }
        guard states.count < Self.distinctStatesMax else { return UInt32(states.count - 1) }
        let index = UInt32(states.count)
        states.append(ShownState(timestamp: timestamp, content: content))
        stateIndicesByKey[key] = index
        return index
    }

    /// Returns the number of an alert, and gives a new alert the next number. After `distinctAlertsMax` different
    /// alerts, a new alert gets the last number.
    mutating func findOrAddAlert(_ json: [UInt8]) -> UInt16 {
        if let known = alertNumbersByJSON[json] { return known }
        guard alertNumbersByJSON.count < Self.distinctAlertsMax else { return UInt16(Self.distinctAlertsMax) }
        let number = UInt16(alertNumbersByJSON.count + 1)
        alertNumbersByJSON[json] = number
        return number
    }

    mutating func countPush(showing stateIndex: UInt32, atMilliseconds: Int64) {
        let index = Int(stateIndex)
        if states[index].pushCount == 0 { states[index].firstShownAtMilliseconds = atMilliseconds }
        states[index].pushCount += 1
        states[index].lastShownAtMilliseconds = atMilliseconds
    }
}
