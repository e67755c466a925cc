/// An app's contract, and whether a command that no phone could decode is refused.
public struct ContractRule: Equatable, Sendable {
    public var contract: Contract
    /// Whether a command that no phone could decode is `invalid`. If false, the command is sent, and a metric counts
    /// the mismatch. So a new file of shapes can be tried without refusing commands.
    public var rejectsMismatches: Bool

    public init(contract: Contract, rejectsMismatches: Bool) {
        self.contract = contract
        self.rejectsMismatches = rejectsMismatches
    }
}
