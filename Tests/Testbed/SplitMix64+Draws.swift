import Numbers

extension SplitMix64 {
    /// One seed is one run of a simulation. Runs of neighbouring seeds have nothing in common.
    public init(simulationSeed: UInt64) { self.init(seed: simulationSeed &* 0x9E37_79B9_7F4A_7C15 &+ 1) }

    /// A number of the range.
    public mutating func number(_ range: ClosedRange<Int>) -> Int {
        range.lowerBound + Int(next() % UInt64(range.count))
    }

    /// True in `perMille` of a thousand cases.
    public mutating func chance(_ perMille: Int) -> Bool { number(0...999) < perMille }

    /// A number in `0..<bound`.
    public mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// One of the choices.
    public mutating func pick<Element>(_ choices: [Element]) -> Element { choices[below(choices.count)] }
}
