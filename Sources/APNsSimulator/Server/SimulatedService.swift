/// One of Apple's two services that the simulator serves. Each has its own port and its own faults.
public enum SimulatedService: Sendable {
    /// The service that takes device pushes and broadcasts.
    case push
    /// The service that manages channels.
    case management
}
