import HTTP

/// Endpoints for a web page that shows the Lock Screens.
extension ControlHandler {
    func getScreens(_ call: ControlCall) async throws(SimulatorError) -> [UInt8] {
        let since = try call.queryNumber("since", default: 0)
        var focusedPhones: [Int] = []
        for text in (call.query["focus"] ?? "").split(separator: ",") {
            guard let number = Int(text), number >= 0 else {
                throw SimulatorError(.invalidRequest, "query: focus is not a list of numbers from 0")
            }
            focusedPhones.append(number)
        }
        let phoneNumbers = focusedPhones
        return try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            devices.screensJSON(since: since, focus: phoneNumbers, nowMilliseconds: now)
        }
    }

    /// Responds with the phone that has this number, from 0 in the order of installation.
    func getPhone(number: Int) async throws(SimulatorError) -> [UInt8] {
        let phone = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) in
            devices.phoneJSON(number: number, nowMilliseconds: now)
        }
        guard let phone else { throw SimulatorError(.notFound, "no phone \(number)") }
        return phone
    }
}
