/// Endpoints for channels, and for phones that go offline or online. A test can create and delete channels
/// here, as if another program than the client under test did it.
extension ControlHandler {
    func listChannels(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let app = try call.requiredQueryItem("app")
        return try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.channelsJSON(app: app, nowMilliseconds: now)
        }
    }

    func createChannel(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, storage) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try tape.optionalString("storage", of: 0) ?? "newest")
        }
        guard storage == "newest" || storage == "none" else {
            throw SimulatorError(.invalidRequest, "storage is not none or newest")
        }
        let identifier = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.createChannel(app: app, storesNewestMessage: storage == "newest", nowMilliseconds: now)
        }
        return Self.jsonObject { $0.member("channel", identifier) }
    }

    func deleteChannel(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, channel) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try tape.requiredString("channel", of: 0))
        }
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.deleteChannel(channel, app: app, nowMilliseconds: now)
        }
        return Self.jsonObject { _ in }
    }

    func setBroadcastCapability(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, isEnabled) = try call.readBody { tape throws(SimulatorError) in
            (try tape.requiredString("app", of: 0), try tape.optionalBool("enabled", of: 0))
        }
        guard let isEnabled else { throw SimulatorError(.invalidRequest, "enabled is missing") }
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            try devices.setBroadcastCapability(isEnabled, app: app, nowMilliseconds: now)
        }
        return Self.jsonObject { _ in }
    }

    func takeOffline(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, names) = try Self.readDevices(call)
        try await simulator.withDevices { (devices, _) throws(DeviceModel.Fault) in
            for name in names { try devices.takeOffline(device: name, app: app) }
        }
        return Self.jsonObject { $0.member("devices", names.count) }
    }

    func bringOnline(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let (app, names) = try Self.readDevices(call)
        try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            for name in names { try devices.bringOnline(device: name, app: app, nowMilliseconds: now) }
        }
        return Self.jsonObject { $0.member("devices", names.count) }
    }

    private static func readDevices(_ call: ControlCall) throws(SimulatorError) -> (app: String, names: [String]) {
        try call.readBody { tape throws(SimulatorError) in
            guard let names = try tape.optionalStrings("devices", of: 0) else {
                throw SimulatorError(.invalidRequest, "devices is missing")
            }
            return (try tape.requiredString("app", of: 0), names)
        }
    }
}
