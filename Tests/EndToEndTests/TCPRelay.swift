import Foundation
import Testbed

@testable import CausewayLab

/// A relay at a port where nothing listens before `start`. So a test can configure a worker for a server that is
/// unreachable at first. The relay is the program `Tests/Acceptance/tools/relay/relay.py`.
struct TCPRelay {
    private static let script = Repository.path("Tests/Acceptance/tools/relay/relay.py")

    let port: UInt16

    init() throws { port = try LoopbackPort.findFree() }

    /// Relays connections to the target from now on, until the deployment ends.
    func start(to target: UInt16, on deployment: Deployment) throws {
        let child = try ChildProcess(
            name: "relay \(port)",
            command: ["/usr/bin/env", "python3", "-B", Self.script, "\(port)", "\(target)"],
            logFile: deployment.path("relay-\(port).log"),
            output: .pipe
        )
        deployment.processesExceptWorker.append(child)
        _ = try child.readFirstLine(timeoutMilliseconds: Deployment.processWaitMillisecondsMax)
    }
}
