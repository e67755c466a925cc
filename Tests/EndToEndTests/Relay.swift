import Foundation
import Testbed

@testable import CausewayLab

/// An address that answers only after `begin`: `Tests/Acceptance/relay/relay.py`.
struct Relay {
    private static let script = Repository.path("Tests/Acceptance/relay/relay.py")

    /// A port where nothing answers yet.
    let port: UInt16

    init() throws { port = try LoopbackPort.free() }

    /// Answers from now on, until the deployment ends.
    func begin(to target: UInt16, on deployment: Deployment) throws {
        let child = try ChildProcess(
            name: "relay \(port)",
            command: ["/usr/bin/env", "python3", "-B", Self.script, "\(port)", "\(target)"],
            logFile: deployment.path("relay-\(port).log"),
            output: .pipe
        )
        deployment.parts.append(child)
        _ = try child.firstLine(milliseconds: Deployment.startMilliseconds)
    }
}
