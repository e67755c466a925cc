/// Endpoints that read and set ``Faults``, and that send a GOAWAY, cut connections or leave them half open.
extension ControlHandler {
    func getFaults(of service: SimulatedService = .push) async throws(SimulatorError) -> [UInt8] {
        let faults = try await simulator.faults(of: service)
        return Self.jsonObject { faults.write(to: &$0) }
    }

    /// Replaces all faults of one service, and returns them. A fault that the request does not name is off.
    func putFaults(_ call: ControlCall, of service: SimulatedService = .push) async throws(SimulatorError) -> [UInt8] {
        let faults = try call.readBody { tape throws(SimulatorError) in try Faults(tape) }
        try await simulator.setFaults(faults, of: service)
        return try await getFaults(of: service)
    }

    func clearFaults(of service: SimulatedService = .push) async throws(SimulatorError) -> [UInt8] {
        try await simulator.setFaults(Faults(), of: service)
        return try await getFaults(of: service)
    }

    func sendGoAway(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let goAway = try call.readBodyIfPresent(default: GoAway()) { tape throws(SimulatorError) in
            try tape.rejectProperties(
                except: ["code", "reason", "lastStream", "graceMilliseconds"],
                "no such part of a GOAWAY"
            )
            var goAway = try GoAway(tape, code: "code", reason: "reason", graceMilliseconds: "graceMilliseconds")
            goAway.lastStreamIdentifier = try tape.optionalInteger("lastStream", of: 0)
            return goAway
        }
        try await simulator.sendGoAway(goAway)
        return Self.jsonObject { _ in }
    }

    func cutConnections() async throws(SimulatorError) -> [UInt8] {
        try await simulator.cutConnections()
        return Self.jsonObject { _ in }
    }

    func makeConnectionsHalfOpen(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let stopsReading = try call.readBodyIfPresent(default: false) { tape throws(SimulatorError) in
            try tape.rejectProperties(except: ["stopsReading"], "no such part of a silence")
            return try tape.optionalBool("stopsReading", of: 0) ?? false
        }
        try await simulator.makeConnectionsHalfOpen(stopsReading: stopsReading)
        return Self.jsonObject { _ in }
    }
}

extension GoAway {
    fileprivate init(
        _ tape: borrowing JSONTape,
        code: StaticString,
        reason: StaticString,
        graceMilliseconds: StaticString
    ) throws(SimulatorError) {
        self.init()
        self.errorCode = try tape.optionalInteger(code, of: 0) ?? self.errorCode
        self.reason = try tape.optionalString(reason, of: 0) ?? self.reason
        self.graceMilliseconds = try tape.optionalInteger(graceMilliseconds, of: 0) ?? 0
    }
}

extension Faults {
    /// All keys that a request for faults may have.
    private static let propertyNames = Set(
        requestShares.map { "\($0.key)" } + [
            "latencyMillisecondsMin", "latencyMillisecondsMax", "reasonShares", "lateMilliseconds", "resetCode",
            "requestsWithoutResponseTakeEffect", "requestsSubjectToFaultsMax", "informationalShare",
            "goAwayAfterRequests", "goAwayUnprocessedRequests", "goAwayCode", "goAwayReason",
            "goAwayGraceMilliseconds", "cutAfterRequests", "silentAfterRequests", "silentStopsReading",
            "concurrentStreams", "connectionWindowBytes",
        ]
    )

    /// Reads the faults from a request's object.
    fileprivate init(_ tape: borrowing JSONTape) throws(SimulatorError) {
        self.init()
        // Refuse unknown properties. Otherwise a test with a misspelt fault would run without the fault.
        try tape.rejectProperties(except: Self.propertyNames, "no such fault")
        try readShares(tape)
        let lower: Int = try tape.optionalInteger("latencyMillisecondsMin", of: 0) ?? 0
        let upper: Int = try tape.optionalInteger("latencyMillisecondsMax", of: 0) ?? 0
        if lower < 0 { throw SimulatorError(.invalidRequest, "latencyMillisecondsMin is negative") }
        latencyMilliseconds = lower...max(lower, upper)
        lateMilliseconds = try tape.optionalInteger("lateMilliseconds", of: 0) ?? lateMilliseconds
        resetCode = try tape.optionalInteger("resetCode", of: 0) ?? resetCode
        requestsWithoutResponseTakeEffect = try tape.optionalBool("requestsWithoutResponseTakeEffect", of: 0) ?? true
        requestsSubjectToFaultsMax = try tape.optionalInteger("requestsSubjectToFaultsMax", of: 0)
        goAwayAfterRequests = try tape.optionalInteger("goAwayAfterRequests", of: 0) ?? 0
        goAwayUnprocessedRequests = try tape.optionalInteger("goAwayUnprocessedRequests", of: 0) ?? 0
        goAway = try GoAway(
            tape,
            code: "goAwayCode",
            reason: "goAwayReason",
            graceMilliseconds: "goAwayGraceMilliseconds"
        )
        cutAfterRequests = try tape.optionalInteger("cutAfterRequests", of: 0) ?? 0
        silentAfterRequests = try tape.optionalInteger("silentAfterRequests", of: 0)
        silentStopsReading = try tape.optionalBool("silentStopsReading", of: 0) ?? false
        concurrentStreams = try tape.optionalInteger("concurrentStreams", of: 0)
        connectionWindowBytes = try tape.optionalInteger("connectionWindowBytes", of: 0)
    }

    private mutating func readShares(_ tape: borrowing JSONTape) throws(SimulatorError) {
        for share in Self.requestShares {
            self[keyPath: share.path] = try tape.optionalDouble(share.key, of: 0) ?? 0
        }
        informationalShare = try tape.optionalDouble("informationalShare", of: 0) ?? 0
        guard let list = tape.member("reasonShares", of: 0), tape[list].kind != .null else { return }
        guard tape[list].kind == .object else { throw SimulatorError(.invalidRequest, "reasonShares is not an object") }
        try tape.forEachMember(of: list) { (key, value) throws(SimulatorError) in
            let text = tape.string(key)
            guard let reason = SimulatedResponse.allCases.first(where: { $0 != .success && $0.text == text }) else {
                throw SimulatorError(.invalidRequest, "reasonShares: APNs has no reason \(text)")
            }
            guard let share = tape.double(value) else {
                throw SimulatorError(.invalidRequest, "reasonShares: \(text) is not a number")
            }
            reasonShares[reason] = share
        }
    }

    fileprivate func write(to writer: inout SimulatorJSONWriter) {
        writer.member("latencyMillisecondsMin", latencyMilliseconds.lowerBound)
        writer.member("latencyMillisecondsMax", latencyMilliseconds.upperBound)
        for share in Self.requestShares { writer.member("\(share.key)", self[keyPath: share.path]) }
        writer.member(
            "reasonShares",
            object: { writer in
                for reason in SimulatedResponse.allCases {
                    if let share = reasonShares[reason] { writer.member(reason.text, share) }
                }
            }
        )
        writer.member("lateMilliseconds", lateMilliseconds)
        writer.member("resetCode", resetCode)
        writer.member("requestsWithoutResponseTakeEffect", requestsWithoutResponseTakeEffect)
        if let requestsSubjectToFaultsMax { writer.member("requestsSubjectToFaultsMax", requestsSubjectToFaultsMax) }
        writer.member("informationalShare", informationalShare)
        writer.member("goAwayAfterRequests", goAwayAfterRequests)
        writer.member("goAwayUnprocessedRequests", goAwayUnprocessedRequests)
        writer.member("goAwayCode", goAway.errorCode)
        writer.member("goAwayReason", goAway.reason)
        writer.member("goAwayGraceMilliseconds", goAway.graceMilliseconds)
        writer.member("cutAfterRequests", cutAfterRequests)
        if let silentAfterRequests { writer.member("silentAfterRequests", silentAfterRequests) }
        writer.member("silentStopsReading", silentStopsReading)
        if let concurrentStreams { writer.member("concurrentStreams", concurrentStreams) }
        if let connectionWindowBytes { writer.member("connectionWindowBytes", connectionWindowBytes) }
    }
}
