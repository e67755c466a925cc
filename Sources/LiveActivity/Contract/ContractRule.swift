/// An app's contract, and whether a command that no phone could decode is refused.
public struct ContractRule: Equatable, Sendable {
    public var contract: Contract
    /// Whether such a command is `invalid`. Otherwise the command is sent, and a metric counts it.
    public var isRefusing: Bool

    public init(contract: Contract, isRefusing: Bool) {
        self.contract = contract
        self.isRefusing = isRefusing
    }
}
