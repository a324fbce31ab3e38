# nix build ./packaging/nix, in a checkout; nix run ./packaging/nix -- doctor.
{
  description = "Run a program in less memory than it uses: swap in user space";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      system = "x86_64-linux";
      pkgs = nixpkgs.legacyPackages.${system};
    in {
      packages.${system}.default = pkgs.rustPlatform.buildRustPackage {
        pname = "uswap";
        version = "0.1.0";
        src = ../..;
        cargoLock.lockFile = ../../Cargo.lock;
        # The agent is built by itself: together with other packages it would be linked with the standard library.
        buildPhase = "cargo xtask build";
        installPhase = "cargo xtask install --prefix $out";
        # Its tests want userfaultfd, which the sandbox of Nix may not have: cargo xtask test, in a checkout.
        doCheck = false;
        # strip would take nothing away that the agent needs; patchelf would: it has no interpreter and no libraries.
        dontPatchELF = true;
        meta = {
          license = with pkgs.lib.licenses; [ mit asl20 ];
          mainProgram = "uswap";
          platforms = [ system ];
        };
      };
    };
}
