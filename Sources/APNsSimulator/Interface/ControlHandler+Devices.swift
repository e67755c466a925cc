import HTTP

/// Endpoints that change or show apps, phones and activities.
extension ControlHandler {
    /// The maximum number of phones or activities that a call with `count` creates. Without this limit, a few bytes in
    /// a call could use up the memory (R4).
    private static let itemsPerCallMax = 1_000_000

    func declareApp(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, team, types) = try call.readBody { tape throws(SimulatorError) in
            var types: [DeviceModel.TypeDeclaration] = []
            if let list = tape.member("attributesTypes", of: 0), tape[list].kind == .array {
                var element = list + 1
                while element < Int(tape[list].nextIndex) {
                    types.append(try Self.readType(tape, at: element))
                    element = Int(tape[element].nextIndex)
                }
            }
            return (try tape.requiredString("app", of: 0), try tape.optionalString("teamId", of: 0), types)
        }
        try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            try devices.declareApp(app, teamId: team, types: types)
        }
        return Self.jsonObject { $0.member("app", app) }
    }

    private static func readType(
        _ tape: borrowing JSONTape,
        at index: Int
    ) throws(SimulatorError) -> DeviceModel.TypeDeclaration {
        guard tape[index].kind == .object else { throw SimulatorError(.invalidRequest, "attributesTypes: not objects") }
        let name = try tape.requiredString("name", of: index)
        return DeviceModel.TypeDeclaration(
            name: name,
            attributes: try readShape("attributes", tape, of: index),
            contentState: try readShape("contentState", tape, of: index),
            identifierAttribute: try tape.optionalString("identifierAttribute", of: index)
        )
    }

    private static func readShape(
        _ name: StaticString,
        _ tape: borrowing JSONTape,
        of object: Int
    ) throws(SimulatorError) -> Shape {
        guard let index = tape.member(name, of: object) else {
            throw SimulatorError(.invalidRequest, "\(name) is missing")
        }
        do throws(Shape.Fault) {
            return try Shape(tape, at: index)
        } catch {
            throw SimulatorError(.invalidRequest, "\(name): \(error)")
        }
    }

    func installPhones(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, names, environment, phone) = try call.readBody { tape throws(SimulatorError) in
            let environmentName = try tape.optionalString("environment", of: 0)
            let environment = environmentName.flatMap(Environment.init(rawValue:))
            if environmentName != nil, environment == nil {
                throw SimulatorError(.invalidRequest, "environment is not production or sandbox")
            }
            let names = try Self.readNames("devices", prefix: "prefix", tape)
            return (
                try tape.requiredString("app", of: 0), names, environment,
                (
                    hasFrequentUpdates: try tape.optionalBool("frequentUpdates", of: 0) ?? false,
                    supportsChannels: try tape.optionalBool("channels", of: 0) ?? false,
                    audiences: try tape.optionalStrings("audiences", of: 0) ?? []
                )
            )
        }
        let next = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            for name in names {
                try devices.install(
                    app: app,
                    device: name,
                    environment: environment,
                    hasFrequentUpdates: phone.hasFrequentUpdates,
                    supportsChannels: phone.supportsChannels,
                    audiences: phone.audiences,
                    nowMilliseconds: now
                )
            }
            return devices.registrationCount
        }
        return Self.jsonObject { writer in
            writer.member("installed", names.count)
            writer.member("next", next)
        }
    }

    /// Reads a list of names from the call's body, for example the names of devices.
    ///
    /// The body has either the list or a count. Example: `"prefix": "phone", "count": 2` makes the names `phone0` and
    /// `phone1`.
    ///
    /// - Parameters:
    ///   - list: the key of the list in the body.
    ///   - prefix: the key of the prefix in the body. The key of the count is always `count`.
    private static func readNames(
        _ list: StaticString,
        prefix: StaticString,
        _ tape: borrowing JSONTape
    ) throws(SimulatorError) -> [String] {
        if let names = try tape.optionalStrings(list, of: 0) { return names }
        guard let count = try tape.optionalInt64("count", of: 0), (1...Int64(itemsPerCallMax)).contains(count) else {
            throw SimulatorError(.invalidRequest, "\(list), or count from 1 to \(itemsPerCallMax), is missing")
        }
        let prefix = try tape.optionalString(prefix, of: 0) ?? ""
        return (0..<count).map { "\(prefix)\($0)" }
    }

    func startActivities(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, starts) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try Self.readStarts(tape))
        }
        let records = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            let countBefore = devices.registrationCount
            for start in starts { try devices.start(start, app: app, nowMilliseconds: now) }
            return devices.registrations(since: countBefore, limit: .max) ?? []
        }
        return Self.jsonObject { Self.write(records, to: &$0) }
    }

    private static func readStarts(_ tape: borrowing JSONTape) throws(SimulatorError) -> [DeviceModel.AppStart] {
        guard let list = tape.member("activities", of: 0) else {
            let devices = try readNames("devices", prefix: "devicePrefix", tape)
            let prefix = try tape.optionalString("prefix", of: 0) ?? ""
            var starts: [DeviceModel.AppStart] = []
            starts.reserveCapacity(devices.count)
            let commonStart = try readStart(tape, at: 0, activity: "", device: "")
            for (number, device) in devices.enumerated() {
                var start = commonStart
                start.activity = "\(prefix)\(number)"
                start.device = device
                starts.append(start)
            }
            return starts
        }
        guard tape[list].kind == .array else { throw SimulatorError(.invalidRequest, "activities is not a list") }
        var starts: [DeviceModel.AppStart] = []
        var element = list + 1
        while element < Int(tape[list].nextIndex) {
            guard tape[element].kind == .object else {
                throw SimulatorError(.invalidRequest, "activities: not objects")
            }
            let (activity, device) = (
                try tape.requiredString("activity", of: element), try tape.requiredString("device", of: element)
            )
            starts.append(try readStart(tape, at: element, activity: activity, device: device))
            element = Int(tape[element].nextIndex)
        }
        return starts
    }

    /// Reads the start of one activity from its item in the body's list `activities`. A property that the item lacks
    /// comes from the body itself. Without such a list, the body describes the only start.
    ///
    /// - Parameters:
    ///   - index: the item's index on the tape; 0, the index of the body, if the body has no list `activities`.
    ///   - activity: the activity's id. The caller may pass an empty text and set the id later.
    ///   - device: the device's id. The caller may pass an empty text and set the id later.
    private static func readStart(
        _ tape: borrowing JSONTape,
        at index: Int,
        activity: String,
        device: String
    ) throws(SimulatorError) -> DeviceModel.AppStart {
        let (ownType, commonType) = (
            try tape.optionalString("attributesType", of: index), try tape.optionalString("attributesType", of: 0)
        )
        let attributes = tape.optionalJSON("attributes", of: index) ?? tape.optionalJSON("attributes", of: 0)
        let content = tape.optionalJSON("contentState", of: index) ?? tape.optionalJSON("contentState", of: 0)
        let (ownTimestamp, commonTimestamp) = (
            try tape.optionalInt64("timestamp", of: index), try tape.optionalInt64("timestamp", of: 0)
        )
        let (ownAudiences, commonAudiences) = (
            try tape.optionalStrings("audiences", of: index), try tape.optionalStrings("audiences", of: 0)
        )
        let (ownChannel, commonChannel) = (
            try tape.optionalString("channel", of: index), try tape.optionalString("channel", of: 0)
        )
        guard let type = ownType ?? commonType else {
            throw SimulatorError(.invalidRequest, "attributesType is missing")
        }
        guard let content else { throw SimulatorError(.invalidRequest, "contentState is missing") }
        return DeviceModel.AppStart(
            activity: activity,
            device: device,
            attributesType: type,
            attributes: attributes ?? "{}",
            contentState: content,
            timestamp: ownTimestamp ?? commonTimestamp,
            audiences: ownAudiences ?? commonAudiences ?? [],
            channel: ownChannel ?? commonChannel
        )
    }

    func listActivities(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let app = try call.requiredQueryItem("app")
        let (since, limit) = (try call.queryNumber("since", default: 0), try call.queryNumber("limit", default: 1_000))
        let includesAlerts = call.query["alerts"] == "true"
        return try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.activitiesJSON(
                app: app,
                since: since,
                limit: limit,
                includesAlerts: includesAlerts,
                nowMilliseconds: now
            )
        }
    }

    func getActivity(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, identifier) = (try call.requiredQueryItem("app"), try call.requiredQueryItem("activity"))
        return try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.activityJSON(identifier, app: app, nowMilliseconds: now)
        }
    }

    func getPhone(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        if call.query["number"] != nil { return try await getPhone(number: try call.queryNumber("number", default: 0)) }
        let (app, device) = (try call.requiredQueryItem("app"), try call.requiredQueryItem("device"))
        return try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.phoneJSON(device, app: app, nowMilliseconds: now)
        }
    }

    func listRegistrations(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (records, next) = try await simulator.registrations(
            since: try call.queryNumber("since", default: 0),
            limit: try call.queryNumber("limit", default: 1_000),
            waitMilliseconds: try call.queryNumber("waitMilliseconds", default: 0)
        )
        return Self.jsonObject { writer in
            writer.member("next", next)
            Self.write(records, to: &writer)
        }
    }

    func rotateToken(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, activity, device, type, replacedTokenBehavior) = try call.readBody { tape throws(SimulatorError) in
            let name = try tape.optionalString("oldToken", of: 0) ?? DeviceModel.ReplacedTokenBehavior.retired.rawValue
            guard let replacedTokenBehavior = DeviceModel.ReplacedTokenBehavior(rawValue: name) else {
                throw SimulatorError(.invalidRequest, "oldToken is not retired or acceptedWithoutEffect")
            }
            return (
                try tape.requiredString("app", of: 0), try tape.optionalString("activity", of: 0),
                try tape.optionalString("device", of: 0), try tape.optionalString("attributesType", of: 0),
                replacedTokenBehavior
            )
        }
        if let activity {
            try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
                try devices.rotateToken(
                    ofActivity: activity,
                    app: app,
                    replacedTokenBehavior: replacedTokenBehavior,
                    nowMilliseconds: now
                )
            }
        } else if let device, let type {
            try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
                try devices.rotateStartToken(
                    device: device,
                    attributesType: type,
                    app: app,
                    replacedTokenBehavior: replacedTokenBehavior,
                    nowMilliseconds: now
                )
            }
        } else {
            throw SimulatorError(.invalidRequest, "activity, or device and attributesType, is missing")
        }
        return Self.jsonObject { _ in }
    }

    func dismissActivity(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, activity) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try tape.requiredString("activity", of: 0))
        }
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.dismiss(activity: activity, app: app, nowMilliseconds: now)
        }
        return Self.jsonObject { _ in }
    }

    func uninstallApp(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, device) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try tape.requiredString("device", of: 0))
        }
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.uninstall(app: app, device: device, nowMilliseconds: now)
        }
        return Self.jsonObject { _ in }
    }

    static func jsonObject(_ body: (inout SimulatorJSONWriter) -> Void) -> [UInt8] {
        var writer = SimulatorJSONWriter()
        writer.object(body)
        return writer.bytes
    }

    static func write(_ records: [RegistrationRecord], to writer: inout SimulatorJSONWriter) {
        writer.member(
            "registrations",
            array: { writer in
                for record in records {
                    writer.object { writer in
                        writer.member("key", record.key)
                        writer.member("value", json: record.value)
                    }
                }
            }
        )
    }
}
