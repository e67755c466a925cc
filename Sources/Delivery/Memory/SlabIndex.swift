/// Names an element of a slab, or no element (`null`). The index has the type of the slab's elements, so the compiler
/// refuses the index of a slab with other elements.
public struct SlabIndex<Element>: BitwiseCopyable, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    @inlinable public static var null: Self { Self(rawValue: .max) }

    @inlinable public static func == (first: Self, second: Self) -> Bool { first.rawValue == second.rawValue }
}
