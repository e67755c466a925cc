/// Endpoints for crowds of compact phones: see ``CompactCrowd``.
extension ControlHandler {
    /// The maximum number of registrations in one response. Pushes must wait while the service's thread makes these
    /// registrations.
    private static let registrationsMax = 50_000

    func createCrowd(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let crowd = try call.readBody { tape throws(SimulatorError) in
            try tape.rejectProperties(
                except: [
                    "app", "name", "count", "audiences", "environment", "frequentEvery", "identifiers", "timestamp",
                ],
                "not a member of a crowd"
            )
            guard let count: Int = try tape.optionalInteger("count", of: 0),
                (1...CompactCrowd.phonesMax).contains(count)
            else { throw SimulatorError(.invalidRequest, "count is not 1 to \(CompactCrowd.phonesMax)") }
            var crowd = CompactCrowd(
                app: try tape.requiredString("app", of: 0),
                name: try tape.requiredString("name", of: 0),
                phoneCount: count
            )
            crowd.audiences = try tape.optionalStrings("audiences", of: 0) ?? []
            if let environmentName = try tape.optionalString("environment", of: 0) {
                guard let environment = Environment(rawValue: environmentName) else {
                    throw SimulatorError(.invalidRequest, "environment is not production or sandbox")
                }
                crowd.environment = environment
            }
            if let formName = try tape.optionalString("identifiers", of: 0) {
                guard let identifierForm = CompactCrowd.IdentifierForm(rawValue: formName) else {
                    throw SimulatorError(.invalidRequest, "identifiers is not numbered or uuid")
                }
                crowd.identifierForm = identifierForm
            }
            crowd.frequentUpdatesEveryNthPhone = try tape.optionalInteger("frequentEvery", of: 0) ?? 0
            guard crowd.frequentUpdatesEveryNthPhone >= 0 else {
                throw SimulatorError(.invalidRequest, "frequentEvery is below 0")
            }
            crowd.timestamp = try tape.optionalInt64("timestamp", of: 0) ?? 0
            return crowd
        }
        try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in try devices.create(crowd) }
        return Self.jsonObject { $0.member("phones", crowd.phoneCount) }
    }

    func getCrowd(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, name) = (try call.requiredQueryItem("app"), try call.requiredQueryItem("name"))
        return try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            try devices.crowdJSON(name, app: app)
        }
    }

    func listCrowdRegistrations(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, name) = (try call.requiredQueryItem("app"), try call.requiredQueryItem("name"))
        let (from, limit) = (try call.queryNumber("from", default: 0), try call.queryNumber("limit", default: 1_000))
        let records = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.registrations(
                from: from,
                limit: min(limit, Self.registrationsMax),
                ofCrowd: name,
                app: app,
                nowMilliseconds: now
            )
        }
        return Self.jsonObject { writer in
            writer.member("next", from + records.count)
            Self.write(records, to: &writer)
        }
    }

    func dismissActivitiesInCrowd(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, name, numbers) = try Self.readNumbers(call)
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.dismiss(numbers, ofCrowd: name, app: app, nowMilliseconds: now)
        }
        return Self.jsonObject { $0.member("phones", numbers.count) }
    }

    func rotateTokensInCrowd(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, name, numbers) = try Self.readNumbers(call)
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.rotateTokens(numbers, ofCrowd: name, app: app, nowMilliseconds: now)
        }
        return Self.jsonObject { $0.member("phones", numbers.count) }
    }

    /// Reads from a call the app, the name of a crowd, and the numbers of the phones that the call is about: `count`
    /// successive numbers from `from` on. Example: with `from` 5 and `count` 3, the phones 5, 6 and 7.
    private static func readNumbers(
        _ call: ControlCall
    ) throws(SimulatorError) -> (app: String, name: String, numbers: Range<Int>) {
        try call.readBody { tape throws(SimulatorError) in
            let from: Int = try tape.optionalInteger("from", of: 0) ?? 0
            guard let count: Int = try tape.optionalInteger("count", of: 0),
                (0...CompactCrowd.phonesMax).contains(count),
                (0...CompactCrowd.phonesMax).contains(from)
            else { throw SimulatorError(.invalidRequest, "from or count is not 0 to \(CompactCrowd.phonesMax)") }
            return (try tape.requiredString("app", of: 0), try tape.requiredString("name", of: 0), from..<from + count)
        }
    }
}
