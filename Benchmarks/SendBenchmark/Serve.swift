import APNs
import APNsSimulator
import Glibc

/// Names that both the simulator and the pushes use.
enum SimulatedApp {
    static let bundle = "com.example.scores"
    static let team = "BENCHTEAM0"
    static let key = "BENCHKEY00"
    static let type = "Scores"
    static let activityCount = 4_096
}

/// `serve`: runs an APNs simulator with 4,096 activities, whose tokens it writes to the file `tokens` in its directory.
/// Prints one line: the port, the directory, the CA file, the file of the signing key and a provider token. Runs until
/// standard input ends.
func serve(_ initialArguments: Arguments) async throws {
    var arguments = initialArguments
    let latencyMilliseconds = try arguments.number("latency", 0, in: 0...10_000)
    let connectionWindowBytes = try arguments.number(
        "connection-window",
        65_535,
        in: 1...Faults.connectionWindowBytesMax
    )
    try arguments.checkAllRead()
    let directory = try TemporaryDirectory()
    defer { directory.remove() }
    let keyFile = try makeSigningKey(in: directory.path)
    var configuration = SimulatorConfiguration(
        transportSecurity: .selfSigned(directory: directory.path),
        keys: [
            .init(
                teamId: SimulatedApp.team,
                keyId: SimulatedApp.key,
                pem: try readText(keyFile)
            )
        ]
    )
    configuration.controlPort = nil
    configuration.faults.latencyMilliseconds = latencyMilliseconds...latencyMilliseconds
    configuration.faults.connectionWindowBytes = connectionWindowBytes
    let simulator = Simulator(configuration)
    try await simulator.start()
    try await addActivities(to: simulator, tokensFile: directory.path + "/tokens")
    let source = try ProviderTokenSource(
        key: SigningKey(path: keyFile),
        keyId: SimulatedApp.key,
        teamId: SimulatedApp.team
    )
    guard let token = source.provideToken(unixSeconds: Int64(time(nil))) else {
        throw Arguments.ArgumentError(description: "no provider token could be signed")
    }
    print("\(simulator.port) \(directory.path) \(simulator.caFile ?? "") \(keyFile) \(token.text)")
    fflush(nil)
    // Standard input ends when the parent process ends.
    while getchar() != EOF {}
    await simulator.stop()
}

private func addActivities(to simulator: Simulator, tokensFile: String) async throws {
    let anything = try Shape(json: #"{}"#)
    let tokens = try await simulator.withDevices { (devices, now) throws(DeviceModel.Fault) -> [String] in
        try devices.declareApp(
            SimulatedApp.bundle,
            teamId: nil,
            types: [.init(name: SimulatedApp.type, attributes: anything, contentState: anything)]
        )
        var tokens: [String] = []
        for number in 0..<SimulatedApp.activityCount {
            try devices.install(app: SimulatedApp.bundle, device: "phone-\(number)", nowMilliseconds: now)
            try devices.start(
                .init(
                    activity: "activity-\(number)",
                    device: "phone-\(number)",
                    attributesType: SimulatedApp.type,
                    attributes: "{}",
                    contentState: "{}"
                ),
                app: SimulatedApp.bundle,
                nowMilliseconds: now
            )
            if let token = try devices.token(ofActivity: "activity-\(number)", app: SimulatedApp.bundle) {
                tokens.append(token)
            }
        }
        return tokens
    }
    guard let file = fopen(tokensFile, "w") else {
        throw Arguments.ArgumentError(description: "cannot write \(tokensFile)")
    }
    defer { fclose(file) }
    for token in tokens { fputs(token + "\n", file) }
}

private func readText(_ path: String) throws(Arguments.ArgumentError) -> String {
    guard let file = fopen(path, "r") else { throw Arguments.ArgumentError(description: "cannot read \(path)") }
    defer { fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 16_384)
    let count = fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
}
