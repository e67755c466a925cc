/// An app's contract, and what becomes of a command that no phone could decode.
public struct ContractRule: Equatable, Sendable {
    public var contract: Contract
    /// Whether the command is invalid. Otherwise it is sent, and only counted.
    public var isRefusing: Bool

    public init(contract: Contract, isRefusing: Bool) {
        self.contract = contract
        self.isRefusing = isRefusing
    }
}
